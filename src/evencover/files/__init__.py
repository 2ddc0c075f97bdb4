"""Files that evencover writes, and the objects in them."""

"""How fast the package is, and how much memory it takes, beside plain numpy and its peers."""

"""What an error must say, apart from its wording: facts, in their order."""

import re


def facts(text):
    """Return a pattern of messages with these parts in this order; " ... " stands for any words between two parts."""
    return ".*".join(map(re.escape, text.split(" ... ")))

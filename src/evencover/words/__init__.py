"""Results in words: sentences, tables and advice, made where they are shown, for Python or for the command line."""

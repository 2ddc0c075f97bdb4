"""Reproduction of the paper: its tables, its synthetic figures, its claims and its benchmark."""

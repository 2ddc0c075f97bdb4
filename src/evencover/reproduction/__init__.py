"""The paper's evidence, computed anew: its tables, its synthetic figures, its claims."""

"""What users pass: arrays, tables of any library, dates in columns; and the packages that are optional."""

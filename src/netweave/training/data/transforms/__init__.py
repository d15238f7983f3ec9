"""The transforms, rows of the table in ``training.data.transform``."""

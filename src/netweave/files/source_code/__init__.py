"""A net as source code that a person would have written: steps, blocks that repeat, statements, names."""

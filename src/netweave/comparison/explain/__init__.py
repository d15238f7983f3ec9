"""Which groups are wrong, and why: tests, and the table of mismatches."""

"""Which groups are wrong, and why: grafts, and the table of traps."""

"""Under construction in its own branch."""

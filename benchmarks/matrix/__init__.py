"""Classic nets by formats: what is read, written, carried over and said of them; see ``run``."""

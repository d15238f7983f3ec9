"""Pairs of nets that try to fool the comparison: one thing changed at random; see ``run``."""

"""Faults that only a backward pass or an update shows."""

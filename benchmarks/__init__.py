"""Measurements, each with the command that repeats it."""

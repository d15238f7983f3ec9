"""Prepared nets against the runtimes by themselves."""

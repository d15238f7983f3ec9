"""Explanations of wrong groups: tests, and the table of mismatches."""

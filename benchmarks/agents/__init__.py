"""Ports for coding agents to mend, and an independent check of what they hand in."""

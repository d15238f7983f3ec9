"""Nets against dumps of ports, right and wrong."""

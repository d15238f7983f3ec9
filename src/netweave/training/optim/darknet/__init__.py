"""Darknet's updates, learning-rate policies and first values."""

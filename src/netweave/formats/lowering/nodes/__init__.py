"""Meaning of nodes that are being written, decoded once for the writers of all frameworks."""

"""Ports in the wild: nets of public repositories against other people's ports of them."""

"""Time and memory of comparing nets of everyday sizes."""

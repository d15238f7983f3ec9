"""Speed of a training step; see ``run.py``."""

"""Speed of the torch backend; see ``run.py``."""

"""SINGA's updaters, learning-rate changes and initial values."""

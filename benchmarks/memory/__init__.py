"""Memory of runs and of training steps."""

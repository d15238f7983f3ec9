"""Keras 3's optimizers, learning-rate schedules and initializers."""

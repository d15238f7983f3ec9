"""MXNet's optimizers: update rules, learning-rate schedulers and initializers."""

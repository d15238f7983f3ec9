"""First values in Darknet (``make_convolutional_layer``, ``make_connected_layer``)."""

from __future__ import annotations

import numpy as np

from netweave.training.optim.filler import Shape, filler


@filler("darknet.constant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 0.0) -> np.ndarray:
    """Return one value."""
    return np.full(shape, value)


@filler("darknet.normal")
def normal(shape: Shape, generator: np.random.Generator, fan_in: int) -> np.ndarray:
    """Return normal numbers of variance 2 / fan_in: those of a convolution."""
    return generator.normal(0.0, np.sqrt(2.0 / fan_in), shape)


@filler("darknet.uniform")
def uniform(shape: Shape, generator: np.random.Generator, fan_in: int) -> np.ndarray:
    """Return uniform numbers up to sqrt(2 / fan_in) either way: those of a dense layer."""
    bound = np.sqrt(2.0 / fan_in)
    return generator.uniform(-bound, bound, shape)

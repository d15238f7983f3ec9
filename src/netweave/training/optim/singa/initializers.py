"""SINGA's ``init`` (src/utils/param.cc and include/singa/utils/param.h at 0.3.0).

A message has the fields of all types; what one of them does not use is ignored, as in SINGA. ``value`` is a
factor where numbers are drawn, and 1 if the file does not set it, also for a constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netweave.training.optim.filler import Shape, filler


@filler("singa.kConstant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 1.0, **ignored: Any) -> np.ndarray:
    """Return one value."""
    return np.full(shape, value)


@filler("singa.kUniform")
def uniform(
    shape: Shape,
    generator: np.random.Generator,
    value: float = 1.0,
    low: float = -1.0,
    high: float = 1.0,
    **ignored: Any,
) -> np.ndarray:
    """Return numbers between two bounds, times ``value``."""
    return generator.uniform(low, high, shape) * value


@filler("singa.kGaussian")
def gaussian(
    shape: Shape,
    generator: np.random.Generator,
    value: float = 1.0,
    mean: float = 0.0,
    std: float = 1.0,
    **ignored: Any,
) -> np.ndarray:
    """Return normal numbers, times ``value``."""
    return generator.normal(mean, std, shape) * value


@filler("singa.kGaussianSqrtFanIn")
def gaussian_by_inputs(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return normal numbers, times ``value``, over the root of the inputs of a unit."""
    _, columns = _matrix(shape)
    return gaussian(shape, generator, **ignored) / math.sqrt(columns)


@filler("singa.kUniformSqrtFanIn")
def uniform_by_inputs(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return uniform numbers, times ``value``, over the root of a third of the inputs of a unit."""
    _, columns = _matrix(shape)
    return uniform(shape, generator, **ignored) / math.sqrt(columns / 3.0)


@filler("singa.kUniformSqrtFanInOut")
def uniform_by_both(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return uniform numbers, times ``value``, over the root of inputs and outputs together."""
    rows, columns = _matrix(shape)
    return uniform(shape, generator, **ignored) / math.sqrt(rows + columns)


def _matrix(shape: Shape) -> tuple[int, int]:
    """Return rows and columns.

    Raises:
        ValueError: The parameter has not two axes, as SINGA checks.
    """
    if len(shape) != 2:
        raise ValueError(f"the shape is {shape}, expected 2 axes")
    return shape[0], shape[1]

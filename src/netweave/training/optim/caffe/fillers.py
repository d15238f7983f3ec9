"""Caffe's fillers (include/caffe/filler.hpp at 1.0).

A filler message has the fields of all fillers; what one of them does not use is ignored, as in Caffe.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netweave.training.optim.filler import Shape, bilinear, filler

VARIANCE_NORM = ("FAN_IN", "FAN_OUT", "AVERAGE")
"""The names of the enumeration, by number."""


def fan(shape: Shape, variance_norm: str | int) -> float:
    """Return n of Xavier and MSRA: of the sizes as they stand, whatever they mean to the layer.

    Raises:
        ValueError: There is no such way to count.
    """
    count = math.prod(shape)
    fan_in, fan_out = count / shape[0], count / shape[1] if len(shape) > 1 else count
    found = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "AVERAGE": (fan_in + fan_out) / 2}
    name = VARIANCE_NORM[variance_norm] if isinstance(variance_norm, int) else variance_norm
    if name not in found:
        raise ValueError(f"variance_norm is {variance_norm}, expected {', '.join(found)}")
    return found[name]


@filler("caffe.constant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 0.0, **ignored: Any) -> np.ndarray:
    """Return one value."""
    return np.full(shape, value)


@filler("caffe.uniform")
def uniform(
    shape: Shape,
    generator: np.random.Generator,
    min: float = 0.0,  # noqa: A002 - the message's own names
    max: float = 1.0,  # noqa: A002
    **ignored: Any,
) -> np.ndarray:
    """Return numbers between two bounds."""
    return generator.uniform(min, max, shape)


@filler("caffe.gaussian")
def gaussian(
    shape: Shape,
    generator: np.random.Generator,
    mean: float = 0.0,
    std: float = 1.0,
    sparse: int = -1,
    **ignored: Any,
) -> np.ndarray:
    """Return normal numbers; with ``sparse`` from 0 on, each is kept with probability sparse / shape[0]."""
    values = generator.normal(mean, std, shape)
    if sparse >= 0:
        values *= generator.random(shape) < sparse / shape[0]
    return values


@filler("caffe.positive_unitball")
def positive_unitball(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return rows (along axis 0) of numbers above 0 with sum 1."""
    rows = generator.random((shape[0], math.prod(shape[1:])))
    rows /= rows.sum(axis=1, keepdims=True)
    return rows.reshape(shape)


@filler("caffe.xavier")
def xavier(
    shape: Shape, generator: np.random.Generator, variance_norm: str | int = "FAN_IN", **ignored: Any
) -> np.ndarray:
    """Return numbers between -sqrt(3 / n) and sqrt(3 / n)."""
    bound = math.sqrt(3.0 / fan(shape, variance_norm))
    return generator.uniform(-bound, bound, shape)


@filler("caffe.msra")
def msra(
    shape: Shape, generator: np.random.Generator, variance_norm: str | int = "FAN_IN", **ignored: Any
) -> np.ndarray:
    """Return normal numbers of variance 2 / n."""
    return generator.normal(0.0, math.sqrt(2.0 / fan(shape, variance_norm)), shape)


@filler("caffe.bilinear")
def interpolation(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return the weights of an up-sampling."""
    half = (shape[-1] + 1) // 2
    return bilinear(shape, half=half, centre=(shape[-1] - 1) / (2.0 * half))

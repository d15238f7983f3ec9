"""What the net computes, whatever format it is written in.

A convolution, its normalisation, a rectifier, a scale (or LRN), a second convolution with an activation,
pooling, the mean of each channel, a dense layer, and what squashes its results. Images are 3 x 12 x 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

SIZE = 12
"""Height and width of the input."""

IN, MIDDLE, CLASSES = 3, 8, 6
"""Channels of the input and of both convolutions, and the width of the dense layer."""

POOL = 3
"""Height and width of the windows, which move in steps of 1, so that no rule of rounding matters."""

LRN_SIZE, LRN_BETA = 3, 0.75

SATURATING = 1e6
"""The dense layer's weights are multiplied by this, so that softmax and sigmoid are saturated."""


@dataclass(frozen=True)
class Plan:
    """Settings and weights of the net.

    Attributes:
        eps: Of the normalisation.
        slope: Of the rectifier below zero; 0 for ReLU.
        scale: Factor behind it, one number of the net's definition; 1 for none.
        lrn: Alpha of local response normalisation, in the place of the factor; None for none.
        fixed_gamma: Whether the normalisation takes every gamma as 1 and stores none.
        pad: Padding of the second convolution.
        activation: Behind the second convolution, ``relu`` or ``tanh``.
        pooling: ``max`` or ``average``.
        end: ``softmax`` or ``sigmoid``.
        weights: ``usual``, ``saturated``, ``zero``, or ``zero last`` (the dense layer's alone).
        factor: What the second convolution's filters are multiplied by.
        seed: Of the values that stand in for missing weights, where the format needs some.
    """

    eps: float = 1e-5
    slope: float = 0.1
    scale: float = 0.5
    lrn: float | None = None
    fixed_gamma: bool = False
    pad: int = 1
    activation: str = "relu"
    pooling: str = "max"
    end: str = "softmax"
    weights: str = "usual"
    factor: float = 1.0
    seed: int = 0

    @property
    def pooled(self) -> int:
        """Height and width behind the pooling."""
        return SIZE + 2 * (self.pad - 1) - POOL + 1


@cache
def _usual() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    return {
        "conv1.weight": normal(MIDDLE, IN, 3, 3, scale=27**-0.5),
        "bn1.gamma": 1 + normal(MIDDLE, scale=0.3),
        "bn1.beta": normal(MIDDLE, scale=0.3),
        "bn1.mean": normal(MIDDLE, scale=0.3),
        "bn1.variance": np.float32(0.05) + rng.random(MIDDLE, np.float32),
        "conv2.weight": normal(MIDDLE, MIDDLE, 3, 3, scale=72**-0.5),
        "conv2.bias": normal(MIDDLE, scale=0.3),
        "fc.weight": normal(CLASSES, MIDDLE, scale=MIDDLE**-0.5),
        "fc.bias": normal(CLASSES, scale=0.3),
    }


def arrays(plan: Plan) -> dict[str, np.ndarray]:
    """Return the net's weights by layer and role; filters as [out, in, height, width]."""
    found = dict(_usual())
    found["conv2.weight"] = found["conv2.weight"] * np.float32(plan.factor)
    if plan.fixed_gamma:
        found["bn1.gamma"] = np.ones(MIDDLE, np.float32)
    if plan.weights == "saturated":
        found["fc.weight"] = found["fc.weight"] * np.float32(SATURATING)
    if plan.weights == "zero":
        found = {key: np.full_like(x, float(key == "bn1.variance")) for key, x in found.items()}
    if plan.weights == "zero last":
        found |= {key: np.zeros_like(found[key]) for key in ("fc.weight", "fc.bias")}
    return found

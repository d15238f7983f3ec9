"""LeNet on scikit-learn's handwritten digits: data, start and batches; oracles and tests both use it.

The digits are 8 by 8 and are enlarged to the 28 by 28 that LeNet is made for. Everything is drawn from names
(``recipe.py``), so that each program starts from the same weights and sees the same batches.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from tests.oracles.recipe import uniform

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = range(5)
STEPS = 500
BATCH = 64
RATE, GAMMA, POWER = 0.01, 1e-4, 0.75
MOMENTUM, DECAY = 0.9, 5e-4
BIAS_RATE = 2.0
"""Solver of Caffe's own example: policy ``inv``; biases learn twice as fast and decay as weights do."""

SHAPES = {
    "conv1": (20, 1, 5, 5),
    "conv2": (50, 20, 5, 5),
    "ip1": (500, 800),
    "ip2": (10, 500),
}
"""Sizes of the weights by layer; a bias has the first of them."""

TEST_EVERY = 5
"""Of each class, every fifth digit is kept for the test."""


def digits(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (N, 1, 28, 28), float32 from 0 to 1, and labels.

    Args:
        path: The file ``digits.csv.gz`` of scikit-learn.
    """
    table = np.loadtxt(path, delimiter=",")
    weights = np.array([np.interp((np.arange(28) + 0.5) * 8 / 28 - 0.5, range(8), row) for row in np.eye(8)])
    images = weights.T @ (table[:, :-1].reshape(-1, 8, 8) / 16) @ weights
    return images[:, None].astype(np.float32), table[:, -1].astype(np.int64)


def split(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the digits to train with and of those to test with."""
    rank = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        rank[labels == label] = np.arange(np.sum(labels == label))
    tested = rank % TEST_EVERY == TEST_EVERY - 1
    return np.flatnonzero(~tested), np.flatnonzero(tested)


def batches(seed: int, count: int, steps: int) -> np.ndarray:
    """Return which of ``count`` digits are in each batch (steps, BATCH); every epoch has its own order."""
    epochs = -(-steps * BATCH // count)
    order = [np.argsort(uniform(f"order {seed} {epoch}", (count,)), kind="stable") for epoch in range(epochs)]
    return np.concatenate(order)[: steps * BATCH].reshape(steps, BATCH)


def start(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return weight and bias of each layer: Caffe's ``xavier``, and zeros; float32."""
    return {
        name: (
            uniform(f"lenet {seed} {name}", shape) / np.float32(sqrt(prod(shape[1:]))),
            np.zeros(shape[0], np.float32),
        )
        for name, shape in SHAPES.items()
    }


def rate(iteration: int) -> float:
    """Return the learning rate of an iteration."""
    return float(RATE * (1 + GAMMA * iteration) ** -POWER)

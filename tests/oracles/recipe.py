"""The rule by which weights and inputs are drawn from names; the oracles and the tests both follow it.

A draw is the raw stream of PCG64 seeded by the CRC-32 of a key: NumPy promises that stream for ever, so
that equal keys and shapes give equal bits under every version of NumPy.
"""

from __future__ import annotations

import zlib
from math import prod, sqrt

import numpy as np

IMAGE_SCALE = 50.0
"""Deviation of an input that stands for pixels minus their mean, so that LRN has something to do."""


def uniform(key: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return float32 numbers of mean 0 and deviation 1, uniform in ±sqrt(3), seeded by ``key``."""
    count = prod(shape)
    words = np.random.PCG64(zlib.crc32(key.encode())).random_raw((count + 1) // 2)
    bits = np.asarray(words, dtype="<u8").view("<u4")[:count] >> np.uint32(8)
    unit = bits.astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return (unit * np.float32(sqrt(3))).reshape(shape)


def image(name: str, shape: tuple[int, ...], scale: float = IMAGE_SCALE) -> np.ndarray:
    """Return the input called ``name``, of deviation ``scale``."""
    return uniform(f"input {name}", shape) * np.float32(scale)


def weight(key: str, shape: tuple[int, ...], role: str) -> np.ndarray:
    """Return a stored array.

    Args:
        key: The array's name; in Caffe ``<owning layer>/<index>``.
        shape: Its sizes.
        role: ``filter`` keeps the size of activations through a rectifier, ``matrix`` shrinks it, so
            that a softmax of large inputs does not saturate; ``scale`` and ``variance`` lie around 1.
    """
    values = uniform(key, shape)
    if role in {"filter", "matrix"}:
        gain = sqrt(2.0) if role == "filter" else 0.3
        return values * np.float32(gain / sqrt(max(1, prod(shape[1:]))))
    if role in {"scale", "variance"}:
        return np.float32(1) + np.float32(0.25) * values
    return np.float32(0.1) * values


def draw(name: str, shape: tuple[int, ...], kind: str = "normal") -> np.ndarray:
    """Return the input called ``name``.

    Args:
        name: Seeds the draw.
        shape: Its sizes.
        kind: ``normal`` lies around 0 with deviation 1, ``pixels`` with that of ``image``; ``positive``
            between 0.5 and 2.2; ``integers n`` are whole numbers from 0 to n - 1, as floats.
    """
    if kind == "pixels":
        return image(name, shape)
    values = image(name, shape, 1.0)
    if kind == "positive":
        return np.abs(values) + np.float32(0.5)
    if kind.startswith("integers "):
        count = int(kind.split()[1])
        return np.clip(np.floor((values / np.float32(sqrt(3)) + 1) / 2 * count), 0, count - 1)
    return values

"""Arrays drawn from the domain of a tensor: noise, images, integers, boxes, and values near thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution.input_domains import OPEN_RANGE, Domain

if TYPE_CHECKING:
    from collections.abc import Sequence

PIXEL_SCALE = 64.0
"""Scale of the third sample, noise of the size of pixels."""

SHARE_AT_LANDMARKS = 0.125
"""Share of the elements that are drawn near a threshold, where the readers of a tensor have any."""

SMALL_RANGE = 128
"""Integers that nothing bounds are drawn up to this size in the first sample."""


def draw_array(
    domain: Domain,
    dtype: np.dtype,
    shape: tuple[int, ...],
    generator: np.random.Generator,
    *,
    scale: float = 1.0,
) -> np.ndarray:
    """Return an array of a tensor's domain, the batch first.

    Args:
        domain: The values that the tensor can take.
        dtype: Type of its elements.
        shape: Its sizes, the batch first.
        generator: Draws it.
        scale: Factor on the usual size of floating-point numbers.
    """
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if domain.kind == "boxes" and shape and shape[-1] == 4:
        return _boxes(shape, generator).astype(dtype)
    if domain.kind == "scores":
        classes = generator.uniform(0.2, 1.0, (*shape[:-1], 1))  # some on both sides of any threshold
        return (generator.random(shape) * classes).astype(dtype)
    if domain.kind in {"mask", "positions"} and len(shape) == 2:
        steps = _mask(shape, generator) if domain.kind == "mask" else _positions(shape, domain, generator)
        return steps.astype(dtype)
    if dtype.kind in "iu" or domain.is_integral:
        return _integers(domain, dtype, shape, generator).astype(dtype)
    x = generator.standard_normal(shape)
    if shape and shape[0] > 1:
        x[1] = _smooth(shape[1:], generator)
    if shape and shape[0] > 2:
        x[2] *= PIXEL_SCALE
    x *= scale
    last = x[2:3] if shape and shape[0] > 2 else x
    _aim(last, domain.landmarks, generator)
    return x.astype(dtype)


def _aim(x: np.ndarray, landmarks: Sequence[float], generator: np.random.Generator) -> None:
    """Put some elements of an array of floating-point numbers on both sides of landmarks, in place."""
    if not landmarks or not x.size:
        return
    places = generator.random(x.shape) < SHARE_AT_LANDMARKS
    count = int(places.sum())
    aimed = generator.choice(np.asarray(landmarks), count)
    aimed += generator.choice([-1.0, -0.25, -0.01, 0.01, 0.25, 1.0], count) * np.maximum(np.abs(aimed), 0.1)
    x[places] = aimed


def _integers(
    domain: Domain, dtype: np.dtype, shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    """Return integers over the whole range, with ties, and on both sides of landmarks.

    Where nothing bounds them, the samples are of different sizes: small ones, few different ones, large ones.
    """
    least, largest = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-(2**53), 2**53)
    low = max(least, -OPEN_RANGE if domain.low is None else domain.low)
    high = min(largest, OPEN_RANGE if domain.high is None else domain.high)
    high = max(low, high)
    x = np.empty(shape, np.int64)
    for sample in np.ndindex(shape[:1]):
        x[sample] = _sample_of_integers(low, high, sample[0] if sample else 0, shape[1:], generator)
    near = [round(mark) + step for mark in domain.landmarks for step in (-1, 0, 1)]
    near = [number for number in near if low <= number <= high]
    if near and x.size:
        places = generator.random(shape) < SHARE_AT_LANDMARKS
        x[places] = generator.choice(near, int(places.sum()))
    return x


def _sample_of_integers(
    low: int, high: int, number: int, shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    middle = min(max(0, low), high)
    is_wide = high - low > 16 * SMALL_RANGE
    if number % 3 == 1:  # ties, and neighbours
        few = generator.integers(low, high, max(2, int(np.prod(shape)) // 8), endpoint=True)
        if is_wide:
            few = np.clip(middle + generator.integers(-2, 2, few.size, endpoint=True), low, high)
        drawn: np.ndarray = generator.choice(few, shape)
        return drawn
    if number % 3 == 0 and is_wide and low < 0:
        return generator.integers(
            max(low, -SMALL_RANGE), min(high, SMALL_RANGE), shape, dtype=np.int64, endpoint=True
        )
    if not is_wide or low >= 0:
        return generator.integers(low, high, shape, dtype=np.int64, endpoint=True)
    size = np.exp(generator.uniform(0, np.log(min(-low, high) + 1.0), shape)).astype(np.int64)
    signed: np.ndarray = np.clip(size * generator.choice([-1, 1], shape), low, high)
    return signed


def _mask(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return which steps count: some are left out behind the first, some at the end, and some in between.

    The first step always counts: where no step counts that another may see, nets compute what they like.
    """
    x = (generator.random(shape) < 0.75).astype(np.int64)
    for row, sample in enumerate(x[:2]):  # padded on the left and on the right
        left, right = (int(n) for n in generator.integers(1, 2 + shape[1] // 4, 2))
        sample[:] = 1
        sample[1 : 1 + left] = 0
        sample[shape[1] - right * (row + 1) :] = 0
    x[:, :1] = 1
    return x


def _positions(shape: tuple[int, ...], domain: Domain, generator: np.random.Generator) -> np.ndarray:
    """Return places of steps, which begin at 0 again within each sample, as in packed sequences."""
    steps = np.arange(shape[1])
    begins = generator.integers(1, max(2, shape[1]), (shape[0], 1))
    x: np.ndarray = np.where(steps < begins, steps, steps - begins)
    return x if domain.high is None else np.minimum(x, domain.high)


def _boxes(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return boxes as corners, of which many overlap, by every share of their union."""
    corners = generator.uniform(0.0, 1.0, (*shape[:-1], 2))
    corners = np.round(corners * 4) / 4 + generator.uniform(0, 0.2, corners.shape)
    sizes = 0.4 + generator.uniform(0, 0.2, corners.shape)
    return np.concatenate([corners, corners + sizes], axis=-1)


def _smooth(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return a positive picture of a few waves with a little noise, different along every axis."""
    x = np.zeros(shape)
    for _ in range(4):
        phase = generator.uniform(0, 2 * np.pi)
        wave = np.full(shape, phase)
        for axis, size in enumerate(shape):
            ramp = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            wave = wave + ramp * (2 * np.pi * generator.uniform(0.2, 1.5) / max(size, 2))
        x = x + np.sin(wave)
    return 0.5 + 0.1 * x + 0.05 * generator.random(shape)

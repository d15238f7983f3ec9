"""Inputs that a check runs: several sizes, and cases at which the planted mistakes show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    Arrays = tuple[np.ndarray, ...]


def _pictures(
    rng: np.random.Generator, channels: int, sizes: Sequence[tuple[int, int]], *, faint: float = 1e-3
) -> list[Arrays]:
    """Return pictures of each size; of two sizes also faint, strong, positive, half white and dark ones.

    ``faint`` is the scale at which an eps matters and float32 still computes the variances of a group norm.
    """
    drawn = [rng.normal(size=(1 + i % 3, channels, *size)) for i, size in enumerate(sizes)]
    for size in sizes[:2]:
        shape = (2, channels, *size)
        drawn += [rng.normal(size=shape) * faint, rng.normal(size=shape) * 20, rng.uniform(size=shape)]
        drawn += [
            np.broadcast_to(np.arange(size[1]) < size[1] / 2, shape),
            rng.integers(-1, 2, shape),
            rng.normal(size=shape) - 3,
        ]
    return [(x.astype(np.float32),) for x in drawn]


def _tokens(rng: np.random.Generator, vocabulary: int, lengths: Sequence[int]) -> list[Arrays]:
    """Return token ids of each length, with every token somewhere, and texts of one token only."""
    texts: list[np.ndarray] = [rng.integers(0, vocabulary, (1 + i % 3, n)) for i, n in enumerate(lengths)]
    longest = max(lengths)
    texts += [
        np.resize(np.arange(vocabulary), (3, longest)),
        np.full((1, longest), 1),
        np.zeros((1, 5), np.int64),
    ]
    return [(x,) for x in texts]


def _padded(rng: np.random.Generator) -> list[Arrays]:
    """Return ids, types and masks: whole texts, and texts with padding at the right and at the left."""
    cases = []
    for length in (1, 5, 16, 40):
        for side in ("none", "right", "left"):
            ids, types = rng.integers(1, 83, (3, length)), rng.integers(0, 2, (3, length))
            mask = np.ones((3, length), np.int64)
            for row in range(3):
                num_padding = int(rng.integers(0, length)) if side != "none" else 0
                mask[row, length - num_padding :] = 0
            if side == "left":
                mask = mask[:, ::-1].copy()
            cases.append((ids * mask, types * mask, mask))
    return cases


INPUTS: dict[str, Callable[[np.random.Generator], list[Arrays]]] = {
    "cnn": lambda rng: _pictures(rng, 3, [(29, 34), (32, 32), (20, 21), (41, 27), (64, 64)]),
    "residual": lambda rng: _pictures(rng, 3, [(33, 47), (32, 32), (24, 25), (64, 40), (41, 41)]),
    "gpt": lambda rng: _tokens(rng, 67, (1, 2, 7, 11, 12, 13, 21, 40)),
    "llama": lambda rng: _tokens(rng, 71, (1, 2, 9, 19, 20, 21, 33, 64)),
    "vit": lambda rng: _pictures(rng, 3, [(24, 24), (24, 32), (8, 8), (48, 20), (16, 48)]),
    "recurrent": lambda rng: _tokens(rng, 53, (1, 2, 8, 30)),
    "unet": lambda rng: _pictures(rng, 1, [(21, 26), (16, 16), (12, 13), (32, 20), (31, 31)], faint=0.1),
    "mixer": lambda rng: _pictures(rng, 3, [(24, 32), (24, 32)]),
    "bert": _padded,
    "mobilenet": lambda rng: _pictures(rng, 3, [(24, 31), (32, 32), (16, 17), (35, 28), (48, 48)]),
}
"""By net: its hidden inputs, each a tuple of arrays for ``run``."""


SMALL: dict[str, Callable[[np.random.Generator], Arrays]] = {
    **dict.fromkeys(
        ("cnn", "residual", "vit", "mobilenet"),
        lambda rng: (rng.normal(size=(1, 3, 24, 24)).astype(np.float32),),
    ),
    "mixer": lambda rng: (rng.normal(size=(1, 3, 24, 32)).astype(np.float32),),
    "unet": lambda rng: (rng.normal(size=(1, 1, 16, 16)).astype(np.float32),),
    "gpt": lambda rng: (rng.integers(0, 67, (1, 8)),),
    "llama": lambda rng: (rng.integers(0, 71, (1, 8)),),
    "recurrent": lambda rng: (rng.integers(0, 53, (1, 8)),),
    "bert": lambda rng: (rng.integers(1, 83, (1, 8)), np.zeros((1, 8), np.int64), np.ones((1, 8), np.int64)),
}
"""By net: the input that a hasty check would draw, to count the mistakes that it does not show."""

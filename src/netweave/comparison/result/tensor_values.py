"""The values of a tensor in both nets, small enough to be shown: a map of the worst channel, and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorValues:
    """The values of one tensor in A and in B, in B's layout.

    Attributes:
        name_a: Name of the tensor in A.
        name_b: Name of the tensor in B.
        shape: Its shape, batch first.
        place: Index of the element with the largest difference; what follows is of its sample and channel.
        value_a: A's value there.
        value_b: B's value there.
        rms: The rms of A's tensor in that sample.
        channel_errors: The largest difference in each channel (axis 1) over all samples, relative to the
            rms of A's tensor in the sample; empty for a tensor without channels.
        block: Height and width of the blocks that one element of the maps stands for.
        map_a: A's values in the worst channel, 2-D: of each block the element that differs most.
        map_b: B's values at the same elements.
        worst: Row and column of the worst element in the maps.
        low: Beginning of the range of the counts.
        high: End of that range.
        counts_a: How many values of A lie in each equal part of the range.
        counts_b: The same of B.
    """

    name_a: str
    name_b: str
    shape: tuple[int, ...]
    place: tuple[int, ...]
    value_a: float
    value_b: float
    rms: float
    channel_errors: tuple[float, ...]
    block: tuple[int, int]
    map_a: np.ndarray
    map_b: np.ndarray
    worst: tuple[int, int]
    low: float
    high: float
    counts_a: tuple[int, ...]
    counts_b: tuple[int, ...]

"""Choice of the channels that stay: those with the largest scales in the whole net."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.formats.darknet.pruning.channels import Channels, Convolution


@dataclass(frozen=True, slots=True)
class Choice:
    """The channels that pruning keeps.

    Attributes:
        kept: Of each channel by number, whether it stays.
        threshold: Channels with a larger scale stay; others only where a layer would have too few.
        multiply_adds: Of all convolutions then.
    """

    kept: np.ndarray
    threshold: float
    multiply_adds: int


def choose(channels: Channels, scales: Mapping[str, np.ndarray], *, keep: float, least: float) -> Choice:
    """Return the channels with the largest scales whose convolutions cost at most a share of all.

    A channel that several layers share has the largest of its scales.

    Args:
        channels: The channels of the net.
        scales: Of each convolution with batch normalisation, by key.
        keep: Largest share of the multiply-adds, above 0 and at most 1.
        least: Smallest share of the channels of each layer that stay.

    Raises:
        UsageError: No choice costs so little.
    """
    rank = _Ranking(channels, scales, least)
    most = rank.multiply_adds(np.ones(len(rank.scores), bool))
    thresholds = np.concatenate([[-1.0], np.unique(rank.scores[np.isfinite(rank.scores)])])
    low, high = 0, len(thresholds) - 1
    if rank.multiply_adds(rank.kept(thresholds[high])) > keep * most:
        share = rank.multiply_adds(rank.kept(thresholds[high])) / most
        raise UsageError(
            f"cannot keep {keep:g} of the multiply-adds: with {least:g} of the channels of each layer, "
            f"{share:.3g} are left; keep more, or fewer channels of each layer"
        )
    while low < high:  # the cost falls as the threshold grows
        middle = (low + high) // 2
        if rank.multiply_adds(rank.kept(thresholds[middle])) > keep * most:
            low = middle + 1
        else:
            high = middle
    kept = rank.kept(thresholds[low])
    return Choice(kept, max(0.0, float(thresholds[low])), rank.multiply_adds(kept))


class _Ranking:
    """Scores of channels, and what is left under a threshold.

    Attributes:
        scores: Of each channel by number; infinity where it stays in any case.
    """

    def __init__(self, channels: Channels, scales: Mapping[str, np.ndarray], least: float) -> None:
        self._convolutions = channels.convolutions
        self._roots = channels.roots(np.arange(channels.count))
        of_root = np.zeros(len(self._roots))
        for one in self._convolutions:
            if one.normalised:
                np.maximum.at(of_root, self._roots[one.outputs], np.abs(scales[one.key]))
        of_root[list(channels.fixed_roots())] = np.inf
        self.scores = of_root[self._roots]
        self._least = self._protected(least)

    def _protected(self, least: float) -> np.ndarray:
        """Return which channels stay so that each layer has enough: its best ones."""
        protected = np.zeros(len(self._roots), bool)
        for one in self._convolutions:
            count = max(1, ceil(least * len(one.outputs)))
            best = one.outputs[np.argsort(-self.scores[one.outputs], kind="stable")[:count]]
            protected[self._roots[best]] = True
        return np.asarray(protected[self._roots])

    def kept(self, threshold: float) -> np.ndarray:
        """Return which channels stay."""
        return np.asarray((self.scores > threshold) | self._least)

    def multiply_adds(self, kept: np.ndarray) -> int:
        """Return what all convolutions cost with these channels."""
        return sum(_cost(one, kept) for one in self._convolutions)


def _cost(one: Convolution, kept: np.ndarray) -> int:
    inputs, outputs = int(kept[one.inputs].sum()), int(kept[one.outputs].sum())
    per_output = 1 if one.is_depthwise else inputs // one.groups
    return outputs * one.places * one.taps * per_output

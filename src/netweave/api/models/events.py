"""Events that a fit sends to its callbacks, and its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """An update is done.

    Attributes:
        epoch: From 0.
        batch: Number in the epoch, from 0.
        metrics: Of this batch, by name; ``loss`` where the net has one.
    """

    epoch: int
    batch: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """All records were gone through once more.

    Attributes:
        epoch: From 0.
        metrics: Means over the epoch's batches by name, and after it those of the records to judge by,
            as ``val_...``.
        seconds: That the epoch took.
    """

    epoch: int
    metrics: Mapping[str, float]
    seconds: float


Callback = Callable[[BatchEnd | EpochEnd], object]
"""Told each event; it may read and change the model's arrays, and call its ``stop``."""


@dataclass(frozen=True, slots=True)
class History:
    """The metrics of each epoch of a fit.

    >>> History(({"accuracy": 0.5}, {"accuracy": 0.75}))["accuracy"]
    [0.5, 0.75]

    Attributes:
        epochs: The metrics of each epoch, as in ``EpochEnd``.
        initial_epoch: Number of the first epoch.
    """

    epochs: tuple[Mapping[str, float], ...]
    initial_epoch: int = 0

    def __getitem__(self, metric: str) -> list[float]:
        return [epoch[metric] for epoch in self.epochs]

    @property
    def history(self) -> dict[str, list[float]]:
        """The metrics of all epochs by name, as Keras has them."""
        names = dict.fromkeys(name for epoch in self.epochs for name in epoch)
        return {name: [epoch[name] for epoch in self.epochs if name in epoch] for name in names}

    @property
    def epoch(self) -> list[int]:
        """The numbers of the epochs."""
        return [self.initial_epoch + number for number in range(len(self.epochs))]

"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shown:
    """A display interval has come round.

    Attributes:
        iteration: Updates done before.
        loss: The smoothed objective.
        rate: Learning rate of the coming update, before multipliers; None after the last.
        outputs: Outputs of the training net in the last batch, their elements, by name.
        weights: Weights of those that are losses.
        images_per_s: Records trained per second since the last time; None the first time.
    """

    iteration: int
    loss: float
    rate: float | None
    outputs: Mapping[str, tuple[float, ...]]
    weights: Mapping[str, float]
    images_per_s: float | None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A test is done.

    Attributes:
        iteration: Updates done before.
        phase: Name of the test phase.
        outputs: Means of the test net's outputs over all batches, by name.
        weights: Weights of those that are losses.
    """

    iteration: int
    phase: str
    outputs: Mapping[str, tuple[float, ...]]
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is on its way to the disk.

    Attributes:
        iteration: Updates done before.
        files: The files.
    """

    iteration: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run has been asked to stop before its end, and has.

    Attributes:
        iteration: Updates done before.
    """

    iteration: int


Event = Shown | Evaluated | Saved | Stopped
Watch = Callable[[Event], None]

Step = Callable[[int, float, float], None]
"""Told after each update: the number of updates, the smoothed objective, the learning rate."""

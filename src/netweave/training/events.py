"""Events of a run: one stream for whoever watches it.

``iteration`` means the same in all of them: the number of updates that the parameters had behind them when
the event's numbers were measured. An ``Updated`` with iteration 5 so tells the loss of the sixth update, and
a checkpoint of iteration 5 goes on with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from netweave.runtime.engine import LaneStatistics
    from netweave.training.goodput import Goodput, RankWork


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person should read, in words.

    Attributes:
        text: The words.
    """

    text: str


class BatchOutputs(Protocol):
    """Outputs of the training net in one batch, taken from the device when they are read."""

    def __getitem__(self, name: str) -> tuple[float, ...]:
        """Return the elements of an output."""

    def array(self, name: str) -> np.ndarray:
        """Return an output with its axes."""

    def items(self) -> Iterable[tuple[str, tuple[float, ...]]]:
        """Return the elements of all outputs by name."""


class SentOutputs(dict[str, tuple[float, ...]]):
    """Outputs that were sent to another process: their elements, without axes."""

    def array(self, name: str) -> np.ndarray:
        """Return the elements of an output."""
        import numpy as np

        return np.asarray(self[name], np.float32)


@dataclass(frozen=True, slots=True)
class Updated:
    """The loss of an update is known; backward and update may still be computed.

    Access to the net's arrays waits for them.

    Attributes:
        iteration: Updates done before this one.
        loss: The smoothed objective.
        rate: Learning rate of the update, before multipliers.
        outputs: Outputs of the training net in the last batch, their elements, by name; taken from the
            device when they are read.
    """

    iteration: int
    loss: float
    rate: float
    outputs: BatchOutputs


@dataclass(frozen=True, slots=True)
class Shown:
    """A display interval has come round.

    Attributes:
        iteration: Updates done before the one whose numbers these are.
        loss: The smoothed objective.
        rate: Learning rate of the update, before multipliers; None after the last.
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
class ValueStatistics:
    """Statistics of a value at one step, over all its finite elements.

    Attributes:
        shape: Its shape.
        mean: Mean of its elements.
        std: Their standard deviation, by their number.
        minimum: The smallest.
        maximum: The largest.
        zeros: Share of elements that are exactly zero: of a ReLU, what is off.
        not_finite: Number of elements that are NaN or infinite.
        counts: The histogram: elements in each of equally wide bins from smallest to largest.
    """

    shape: tuple[int, ...]
    mean: float
    std: float
    minimum: float
    maximum: float
    zeros: float
    not_finite: int
    counts: tuple[int, ...]

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "1"
        bad = f", {self.not_finite:,} not finite" if self.not_finite else ""
        return (
            f"{sizes} mean {self.mean:.4g} std {self.std:.4g} min {self.minimum:.4g} max {self.maximum:.4g} "
            f"zeros {self.zeros:.1%}{bad}"
        )


@dataclass(frozen=True, slots=True)
class ValuesSeen:
    """Watched values were looked at.

    Attributes:
        iteration: Updates done before the one whose forward pass made the values.
        values: By name, a ``ValueStatistics``, or what a monitor's own function returned.
    """

    iteration: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Norms:
    """Mean absolute values: of something that a net computes or holds, and of its gradient.

    Attributes:
        value: Of the value itself.
        gradient: Of its gradient; None where backward computes none.
        layer: The layer that gives the value, or reads the parameter.
    """

    value: float
    gradient: float | None
    layer: str


@dataclass(frozen=True, slots=True)
class NormsSeen:
    """The mean absolute values of an update that is displayed, where the Job asks for them (``debug``).

    Attributes:
        iteration: Updates done before.
        layers: By layer, in the order of forward.
        parameters: By parameter, before the update.
    """

    iteration: int
    layers: Mapping[str, Norms]
    parameters: Mapping[str, Norms]


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
        saved_at: Updates in the last checkpoint that the run has written; None if it has written none.
    """

    iteration: int
    saved_at: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over, and all of it is done and written.

    Attributes:
        iteration: Updates done.
        lanes: How busy each lane of the engine was, by name.
        work: What each rank did, where several trained together.
        goodput: Where the time of the run went, over all its starts; None if it made no update.
    """

    iteration: int
    lanes: Mapping[str, LaneStatistics]
    work: tuple[RankWork, ...] = ()
    goodput: Goodput | None = None


Event = Note | Updated | Shown | ValuesSeen | NormsSeen | Evaluated | Saved | Stopped | Ended
Watch = Callable[[Event], None]
"""Told one event after the other."""

"""The parts of a Job that are numbers and names: solver, schedule, checkpoints, cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Policy:
    """How the learning rate changes.

    Attributes:
        kind: Whose rule and which, ``caffe.step`` or ``mxnet.factor``; a row of the table in ``optim``.
        base_rate: The rate that the rule starts from, > 0.
        settings: The rule's own numbers by the source's names.
    """

    kind: str
    base_rate: float
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Solver:
    """How gradients change parameters.

    Attributes:
        kind: Whose rule and which, ``caffe.nesterov`` or ``mxnet.adam``; a row of the table in ``optim``.
        policy: How the learning rate changes.
        settings: The rule's own numbers by the source's names (``momentum``, ``weight_decay``, ...).
        accumulate: Batches whose gradients are summed for one update (Caffe's ``iter_size``), >= 1.
        gradient_mult: Factors on the gradients of single parameters, by key, where they are not 1: SINGA
            averages the gradient of a parameter over the layers that share it.
    """

    kind: str
    policy: Policy
    settings: Mapping[str, Any] = field(default_factory=dict)
    accumulate: int = 1
    gradient_mult: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens when; an iteration is one update, counted from 0.

    Attributes:
        max_iterations: Training ends before the iteration of this number.
        display_interval: Iterations between two lines of the log; 0 for none.
        average_loss: Iterations over which the shown loss is averaged, >= 1.
        test_interval: Iterations between two tests; 0 for none.
        test_at_start: Whether there is a test before the first iteration.
        test_at_end: Whether there is a test behind the last one, if the interval falls there.
        display_at_end: Whether the end of training shows the training net once more on a further batch, as
            Caffe does.
        display_means: Whether a display shows the means of the outputs over all iterations since the last
            one, as SINGA does, and not those of the last batch.
        display_norms: Whether a display also shows the mean absolute values of layers, parameters and their
            gradients (SINGA's ``debug``).
        validate_interval: Iterations between two passes over the phase ``validate``; 0 for none.
        first: Iteration from which on something is done, where it is not from the start: ``display``,
            ``test``, ``validate`` or ``checkpoint``.
    """

    max_iterations: int
    display_interval: int = 0
    average_loss: int = 1
    test_interval: int = 0
    test_at_start: bool = True
    test_at_end: bool = True
    display_at_end: bool = True
    display_means: bool = False
    display_norms: bool = False
    validate_interval: int = 0
    first: Mapping[str, int] = field(default_factory=dict)

    def is_due(self, event: str, iteration: int, interval: int | None = None) -> bool:
        """Return whether something is done at an iteration.

        Args:
            event: ``display``, ``test``, ``validate`` or ``checkpoint``.
            iteration: Updates done.
            interval: Iterations between two times, if not those of the schedule; 0 for never.

        >>> [n for n in range(20) if Schedule(99, test_interval=5, first={"test": 7}).is_due("test", n)]
        [7, 12, 17]
        """
        if interval is None:
            interval = getattr(self, f"{event}_interval")
        since = iteration - self.first.get(event, 0)
        return interval > 0 and since >= 0 and since % interval == 0


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What is kept of a run, and what it starts from.

    Attributes:
        prefix: Path that the names of the files start with.
        interval: Iterations between two checkpoints; 0 for none but the last.
        at_start: Whether one is made before the first update, where the interval asks for any (SINGA).
        at_end: Whether the end of the run makes one.
        formats: What is written besides Netweave's own checkpoint: ``caffemodel``, ``caffemodel.h5``,
            ``params``.
        gradients: Whether the last gradients are written too (Caffe's ``snapshot_diff``).
        weights: Files whose arrays replace the first values of parameters of the same name, in order.
    """

    prefix: str = ""
    interval: int = 0
    at_start: bool = False
    at_end: bool = True
    formats: tuple[str, ...] = ()
    gradients: bool = False
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The shape of the machinery that the source asks for; what it means is for ``parallel`` to say.

    Attributes:
        num_workers: Processes or devices that compute gradients, >= 1.
        num_servers: Processes that hold parameters; 0 where workers exchange among themselves.
        settings: Further wishes by the source's names; JSON values.
    """

    num_workers: int = 1
    num_servers: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

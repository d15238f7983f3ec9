"""Training of MXNet's symbols."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.shapes import to_graph
from netweave.formats.mxnet.symbol.symbol import Symbol, group, operator_function
from netweave.job import Checkpoints, DataSource, Job, Phase, Policy, Schedule, Solver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from netweave.formats.mxnet.symbol.initializer import Initializer
    from netweave.graph import Graph


RATES = {
    "adadelta": 1.0,
    "adam": 0.001,
    "adamax": 0.002,
    "ftrl": 0.1,
    "lamb": 0.001,
    "nadam": 0.001,
    "rmsprop": 0.001,
    "signum": 0.01,
}
"""Learning rates that MXNet's optimizers have by default; the others have none: the scheduler's, or 0.01."""

DEFAULT_BASE_LR = 0.01
"""``base_lr`` of MXNet's schedulers where their constructor is not given one."""

DECAYED = ("_weight", "_gamma")
"""Ends of the names of arrays that weight decay is for (python/mxnet/optimizer, ``set_wd_mult``)."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingGraph:
    """A net with what is made small and what is measured.

    Attributes:
        net: The net; the sum of its outputs is made small, by gradients that may be their operators' own.
        inputs: Names of the inputs that records have parts for, in their order; labels last.
        metrics: Numbers to be measured, by name.
    """

    net: Symbol
    inputs: tuple[str, ...]
    metrics: Mapping[str, Symbol] = field(default_factory=dict)

    def graph(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Graph, dict[str, str], list[str]]:
        """Return the Graph, whose outputs are the metrics; their values by name; and the values to sum.

        Args:
            shapes: Sizes of the inputs by name, batch size first.

        Raises:
            SourceError: Sizes do not fit; the message names the line.
            UsageError: The net has no such input.
        """
        whole = group([self.net, *self.metrics.values()])
        graph = to_graph(whole, shapes, title=self.net.name or "net")
        names = [value.name or "" for value in graph.outputs]
        heads, measured = names[: len(self.net)], names[len(self.net) :]
        del graph.model.graph.outputs[: len(heads)]
        written = self.net.attr_dict()
        for key, parameter in graph.parameters.items():
            if not key.endswith(DECAYED) and "__wd_mult__" not in written.get(key, {}):
                graph.parameters[key] = replace(parameter, decay_mult=0.0)
        return graph, dict(zip(self.metrics, measured, strict=True)), heads


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """Length and settings of a fit.

    Attributes:
        batch_size: Records in a batch, >= 1.
        max_iterations: Updates, counted from the very first.
        shuffle: Whether each epoch has an order of its own.
        last: What happens to the last records of an epoch; see ``data.Order``.
        solver: How gradients change parameters.
        initializer: For weights that have no rule of their own; None for MXNet's own, Uniform(0.01).
        seed: Of everything that is drawn; None for a fresh one.
        checkpoints: What is kept of the run.
    """

    batch_size: int
    max_iterations: int
    solver: Solver
    shuffle: bool = False
    last: str = "pad"
    initializer: Initializer | None = None
    seed: int | None = None
    checkpoints: Checkpoints = field(default_factory=lambda: Checkpoints(at_end=False))

    def job(self, graph: Graph, inputs: Sequence[str], heads: Sequence[str]) -> Job:
        """Return the Job that trains a Graph; its records are given with the call that runs it."""
        order = {"shuffle": self.shuffle, "last": self.last}
        place = f"fit of {graph.name!r}"
        data = DataSource("given", tuple(inputs), self.batch_size, order=order, place=place)
        return Job(
            name=graph.name,
            phases={"train": Phase(graph, (data,), losses=dict.fromkeys(heads, 1.0))},
            solver=self.solver,
            schedule=Schedule(self.max_iterations, display_at_end=False),
            checkpoints=self.checkpoints,
            seed=self.seed,
            initializer=self.initializer.filler if self.initializer else {},
        )


def mxnet_solver(optimizer: str, settings: Mapping[str, Any], *, rescale_grad: float) -> Solver:
    """Return the solver that MXNet's names ask for.

    Args:
        optimizer: ``sgd``, ``adam``, ...
        settings: The optimizer's own, with ``learning_rate`` and, if wanted, ``lr_scheduler``: a mapping with
            ``kind`` (``factor``, ``multifactor``, ``poly``, ``cosine``) and the scheduler's settings. As in
            MXNet, ``poly`` and ``cosine`` start from the scheduler's own ``base_lr``, 0.01 by default.
        rescale_grad: Factor of the gradients where the settings do not say.

    Raises:
        UsageError: A scheduler is no mapping with a ``kind``, or a rate is no number.
    """
    name = optimizer.lower()  # mx.optimizer.create does so, too
    own = {"rescale_grad": rescale_grad, **settings}
    rate, scheduler = own.pop("learning_rate", None), own.pop("lr_scheduler", None)
    policy = _constant_rate(name, rate) if scheduler is None else _scheduled_rate(name, rate, scheduler)
    return Solver(f"mxnet.{name}", policy, own)


def _constant_rate(optimizer: str, rate: Any) -> Policy:
    rate = RATES.get(optimizer, 0.01) if rate is None else _number("learning_rate", rate)
    return Policy("mxnet.fixed", rate)


def _scheduled_rate(optimizer: str, rate: Any, scheduler: Any) -> Policy:
    try:
        settings = {"base_lr": DEFAULT_BASE_LR, **scheduler}
        kind = settings.pop("kind")
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(
            f"lr_scheduler is {scheduler!r:.60}, expected a mapping such as "
            "{'kind': 'factor', 'step': 100, 'factor': 0.5}"
        ) from error
    own_rate = settings["base_lr"] = _number("base_lr", settings["base_lr"])
    rate = RATES.get(optimizer, own_rate) if rate is None else _number("learning_rate", rate)
    # MXNet's Ftrl keeps its learning rate to itself, so that a scheduler goes by its own.
    return Policy(f"mxnet.{kind}", own_rate if optimizer == "ftrl" else rate, settings)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is {value!r:.60}, expected a number") from error


# They are those of MXNet (python/mxnet/metric.py at 1.9.1) over one batch. To add one: a function under
# ``@metric("name", ...)``.

METRICS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {}
"""The metrics by name: ``(prediction, label) -> one number``."""

F = TypeVar("F", bound="Callable[[Symbol, Symbol], Symbol]")

LEAST_PROBABILITY = 1e-12
"""Added to a probability before its logarithm, as in MXNet."""


def metric(*names: str) -> Callable[[F], F]:
    """Enter a metric in the table, under its name and its other names."""

    def enter(function: F) -> F:
        METRICS.update(dict.fromkeys(names, function))
        return function

    return enter


def find_metric(name: str) -> Callable[[Symbol, Symbol], Symbol]:
    """Return a metric.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in METRICS:
        raise UsageError(f"unknown metric {name!r}; expected one of {', '.join(sorted(METRICS))}")
    return METRICS[name]


def call(op: str, *inputs: Symbol, **settings: Any) -> Symbol:
    """Apply an operator."""
    return operator_function(op)(*inputs, **settings)


@metric("accuracy", "acc")
def accuracy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the share of rows whose largest element is at the label's place."""
    flat = call("Reshape", label, shape=(-1,))
    return call("mean", call("_equal", call("argmax", prediction, axis=1).reshape(shape=(-1,)), flat))


@metric("top_5_accuracy", "top5")
def top_5_accuracy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the share of rows whose label is among the five largest elements."""
    best = call("topk", prediction, k=5, axis=1)
    hit = call("broadcast_equal", best, call("Reshape", label, shape=(-1, 1)))
    return call("mean", call("sum", hit, axis=1))


@metric("cross-entropy", "ce", "crossentropy")
def cross_entropy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of minus the logarithms of the labels' probabilities."""
    chosen = call("pick", prediction, call("Reshape", label, shape=(-1,)))
    return call("mean", -call("log", chosen + LEAST_PROBABILITY))


@metric("mse", "mean_squared_error")
def mean_squared_error(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of the squared differences."""
    return call("mean", call("square", _difference(prediction, label)))


@metric("rmse")
def root_mean_squared_error(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the root of the mean of the squared differences."""
    return call("sqrt", mean_squared_error(prediction, label))


@metric("mae", "mean_absolute_error")
def mean_absolute_error(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of the absolute differences."""
    return call("mean", call("abs", _difference(prediction, label)))


@metric("binary_accuracy")
def binary_accuracy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the share of elements on the label's side of a half."""
    return call("mean", call("_equal", prediction > 0.5, call("reshape_like", label, prediction) > 0.5))


@metric("loss")
def value(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of the output itself, which is a loss."""
    return call("mean", prediction)


def _difference(prediction: Symbol, label: Symbol) -> Symbol:
    return prediction - call("reshape_like", label, prediction)

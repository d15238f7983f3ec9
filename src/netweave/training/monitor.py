"""Watching values of a net while it trains: statistics and histograms of layers' outputs and of parameters.

Values are looked at in the task that has just computed them, before backward: nothing is kept, and a run
that is watched ends with the same bits as one that is not.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from netweave.errors import UsageError
from netweave.graph import Graph, layer_keys
from netweave.graph.summary import names_text
from netweave.training.events import NormsSeen, ValuesSeen, ValueStatistics

if TYPE_CHECKING:
    from torch import Tensor

    from netweave.runtime.backends.torch import TorchNet

BINS = 30
"""Of a histogram."""


def statistics_of(value: Tensor) -> ValueStatistics:
    """Return the statistics of a tensor."""
    flat = value.detach().float().reshape(-1)
    finite = flat[flat.isfinite()]
    not_finite = flat.numel() - finite.numel()
    if not finite.numel():
        nothing = (math.nan,) * 4
        return ValueStatistics(tuple(value.shape), *nothing, 0.0, not_finite, (0,) * BINS)
    low, high = float(finite.min()), float(finite.max())
    # a bin of no width would take no element; torch widens the range itself where both ends are equal
    counts = finite.cpu().histc(BINS, low, high)
    return ValueStatistics(
        shape=tuple(value.shape),
        mean=float(finite.double().mean()),
        std=float(finite.double().std(correction=0)),
        minimum=low,
        maximum=high,
        zeros=float((finite == 0).double().mean()),
        not_finite=not_finite,
        counts=tuple(int(count) for count in counts.tolist()),
    )


@dataclass(frozen=True, slots=True)
class Monitor:
    """Statistics of values every so many updates, in the manner of MXNet's ``mx.mon.Monitor``.

    Values are called as MXNet calls them: ``conv1_output`` for what a layer gives, and parameters by their
    names (``conv1_weight``; ``conv1/0`` of Caffe).

    Attributes:
        interval: Updates from one look to the next, >= 1.
        stat_func: From a tensor to what is told of it; None for ``ValueStatistics``.
        pattern: Regular expression that names must match from their beginning.
        sort: Whether values are told in the order of their names, instead of the net's.
    """

    interval: int
    stat_func: Callable[[Tensor], Any] | None = None
    pattern: str = ".*"
    sort: bool = False

    def names(self, known: Mapping[str, str]) -> list[str]:
        """Return which of the net's names are watched.

        Args:
            known: Names that may be: what they stand for (``layer``, ``value`` or ``parameter``).

        Raises:
            UsageError: The pattern is none, or matches nothing.
        """
        try:
            wanted = re.compile(self.pattern)
        except re.error as error:
            raise UsageError(f"the pattern {self.pattern!r} of the monitor is damaged: {error}") from error
        names = [
            name
            for name, kind in known.items()
            if kind != "value" and wanted.match(name if kind == "parameter" else f"{name}_output")
        ]
        if not names:
            raise UsageError(f"the monitor's pattern {self.pattern!r} matches nothing; {_names(known)}")
        return names

    def label(self, name: str, kind: str) -> str:
        """Return what a value is called."""
        return name if kind == "parameter" else f"{name}_output"


@dataclass(frozen=True, slots=True)
class Watched:
    """Names of layers, values or parameters whose statistics are told every so many updates.

    Attributes:
        interval: Updates from one look to the next, >= 1.
        wanted: Names, or patterns with ``*``.
        stat_func: As in ``Monitor``.
        sort: As in ``Monitor``.
    """

    interval: int
    wanted: tuple[str, ...]
    stat_func: None = None
    sort: bool = False

    def names(self, known: Mapping[str, str]) -> list[str]:
        """Return which of the net's names are watched.

        Args:
            known: Names that may be, and what they stand for.

        Raises:
            UsageError: A name or pattern matches nothing.
        """
        names: dict[str, None] = {}
        for name in self.wanted:
            matching = [name] if name in known else fnmatch.filter(known, name) if "*" in name else []
            if not matching:
                raise UsageError(f"cannot watch {name!r}: the net has no such value; {_names(known)}")
            names |= dict.fromkeys(matching)
        return list(names)

    def label(self, name: str, kind: str) -> str:
        """Return what a value is called."""
        return name


def _names(known: Mapping[str, str]) -> str:
    """Return the layers and parameters that may be watched, for a message."""
    return f"there are {names_text((name for name, kind in known.items() if kind != 'value'), most=12)}"


class Look(Protocol):
    """Looks at values of a training net while they are there.

    Attributes:
        needs_gradients: Whether ``look_at_gradients`` is called between backward and the update.
    """

    needs_gradients: bool

    @property
    def taps(self) -> Sequence[str]:
        """Names of values that the net must give besides its outputs."""

    def is_due(self, step: int) -> bool:
        """Return whether the values of an update are looked at."""

    def look(self, net: TorchNet, outputs: Mapping[str, Tensor]) -> None:
        """Look at values, in the task that computed them."""

    def look_at_gradients(self, net: TorchNet) -> None:
        """Look at gradients of parameters."""

    def event(self, step: int) -> ValuesSeen | NormsSeen | None:
        """Return what was seen in an update, which may still be computed; None if nothing is to be told."""


class ValueWatch:
    """Looks at the values of a training net.

    Args:
        graph: The net.
        how: What to look at, when, and how.

    Attributes:
        taps: Names of values that the net must give besides its outputs.

    Raises:
        UsageError: Nothing is matched, or the interval is below 1.
    """

    needs_gradients = False

    def __init__(self, graph: Graph, how: Monitor | Watched) -> None:
        if how.interval < 1:
            raise UsageError(f"values are to be watched every {how.interval} updates, expected 1 or more")
        layers = layer_values(graph)
        parameters = dict.fromkeys(graph.parameters)
        values = [name for name in graph.values() if name not in parameters]
        known = {
            **dict.fromkeys(values, "value"),
            **dict.fromkeys(parameters, "parameter"),
            **dict.fromkeys(layers, "layer"),
        }
        ordered = {name: known[name] for name in [*layers, *parameters, *values]}
        self._how = how
        self._values: dict[str, str] = {}
        self._parameters: dict[str, str] = {}
        for name in how.names(ordered):
            kind = ordered[name]
            rows = self._parameters if kind == "parameter" else self._values
            rows[how.label(name, kind)] = layers.get(name, name)
        self.taps: Sequence[str] = list(dict.fromkeys(self._values.values()))
        self._told: dict[str, Any] = {}

    def is_due(self, step: int) -> bool:
        """Return whether the values of an update are looked at; the first one's are."""
        return step % self._how.interval == 0

    def look(self, net: TorchNet, outputs: Mapping[str, Tensor]) -> None:
        """Look at values, in the task that computed them."""
        measure = self._how.stat_func or statistics_of
        told = {label: measure(outputs[name].detach()) for label, name in self._values.items()}
        for label, key in self._parameters.items():
            told[label] = measure(net.store[key].tensor.detach())
        self._told = {label: told[label] for label in sorted(told)} if self._how.sort else told

    def look_at_gradients(self, net: TorchNet) -> None:
        """Look at nothing: values alone are watched."""

    def event(self, step: int) -> ValuesSeen | None:
        """Return what was seen in an update, once; None if nothing was."""
        told, self._told = self._told, {}
        return ValuesSeen(step, told) if told else None


def layer_values(graph: Graph) -> dict[str, str]:
    """Return the value that each layer gives: the last that one of its nodes makes."""
    value_names: dict[str, str] = {}
    for node in graph.nodes:
        name = next((value.name for value in node.outputs if value.name), None)
        for key in layer_keys(node) if name else ():
            value_names[key] = str(name)
    return value_names

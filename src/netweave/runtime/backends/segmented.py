"""Nets run in segments by several backends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from math import ceil
from typing import TYPE_CHECKING, Protocol

import numpy as np
import onnx_ir as ir

from netweave.errors import RunError, UsageError
from netweave.graph import DOMAIN, Graph, attributes_of, find_operator
from netweave.graph.graph import needed_nodes, reads
from netweave.graph.operators import effects_of
from netweave.runtime.backends.inputs import check_inputs
from netweave.runtime.backends.model import SegmentModel, build_model
from netweave.runtime.engine.threaded import num_cores

if TYPE_CHECKING:
    from netweave.runtime.backends.runner import RunSettings


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes that run together.

    Attributes:
        native: Whether the runtime runs them; otherwise the registry's own forwards do.
        nodes: The nodes, in topological order.
        inputs: Values that they read and that something before them makes.
        initializers: Stored values that they read.
        outputs: Values that they make and that are read after them or wanted by the caller.
    """

    native: bool
    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]
    initializers: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]


def split(
    nodes: Iterable[ir.Node],
    *,
    is_native: Callable[[ir.Node], bool],
    wanted: set[ir.Value],
    max_nodes: int | None = None,
) -> list[Segment]:
    """Cut nodes into the longest segments that can run one after another.

    Nodes move ahead of nodes that they do not depend on, so that there are as few segments as a change
    between runtimes along some path demands; nodes with effects keep their order among themselves.

    Args:
        nodes: The nodes, in topological order.
        is_native: Whether the runtime can run a node.
        wanted: Values that must be outputs of their segments.
        max_nodes: Most nodes in a segment of the runtime's; None for any number. A segment with a value of
            unknown type stays whole, since a value that goes from one to the next needs one.
    """
    levels: dict[ir.Node, int] = {}
    last_effect = 0
    for node in nodes:
        native, has_effects = is_native(node), bool(effects_of(node))
        makers = [value.producer() for value in reads(node)]
        after = [levels[maker] for maker in makers if maker in levels]
        if has_effects:
            after.append(last_effect)
        level = max([_aligned(level, native=native) for level in after], default=0 if native else 1)
        if has_effects:
            last_effect = level
        levels[node] = level
    members: dict[int, list[ir.Node]] = {}
    for node, level in levels.items():
        members.setdefault(level, []).append(node)
    parts = [
        (level % 2 == 0, part)
        for level in sorted(members)
        for part in _pieces(members[level], max_nodes if level % 2 == 0 else None)
    ]
    return _bounded(parts, wanted)


def _pieces(nodes: list[ir.Node], max_nodes: int | None) -> list[list[ir.Node]]:
    """Cut the nodes of a segment into pieces of about the same number."""
    typed = all(value.type is not None for node in nodes for value in node.outputs if value.name)
    if max_nodes is None or len(nodes) <= max_nodes or not typed:
        return [nodes]
    size = ceil(len(nodes) / ceil(len(nodes) / max_nodes))
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]


def _aligned(level: int, *, native: bool) -> int:
    """Even levels are native and odd ones are not; return the first that is not before ``level``."""
    return level if (level % 2 == 0) == native else level + 1


def _bounded(parts: Sequence[tuple[bool, list[ir.Node]]], wanted: set[ir.Value]) -> list[Segment]:
    needed = set(wanted)
    segments: list[Segment] = []
    for native, nodes in reversed(parts):
        made = [value for node in nodes for value in node.outputs]
        inside = set(made)
        read = dict.fromkeys(value for node in nodes for value in reads(node))
        outside = [value for value in read if value not in inside]
        segments.append(
            Segment(
                native=native,
                nodes=tuple(nodes),
                inputs=tuple(value for value in outside if not value.is_initializer()),
                initializers=tuple(value for value in outside if value.is_initializer()),
                outputs=tuple(value for value in made if value in needed),
            )
        )
        needed.update(outside)
    return segments[::-1]


@dataclass(frozen=True, slots=True)
class Fallback:
    """A segment run node by node in NumPy.

    Attributes:
        nodes: The nodes, in order.
        places: Where each of them stands, for a message.
        stored: Arrays of the initializers that they read, by name.
        outputs: Names of the values to give back.
    """

    nodes: tuple[ir.Node, ...]
    places: tuple[str, ...]
    stored: dict[str, np.ndarray]
    outputs: tuple[str, ...]

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name, given the values that the segment reads."""
        local = {**values, **self.stored}
        for node, place in zip(self.nodes, self.places, strict=True):
            local.update(run_node(node, local, place=place))
        return {name: local[name] for name in self.outputs}


def fallback(segment: Segment, graph: Graph) -> Fallback:
    """Make a segment of a graph ready; its operators must be in the registry.

    Raises:
        RunError: An operator is not registered.
    """
    for node in segment.nodes:
        find_operator(node.op_type)
    stored = {
        value.name or "": value.const_value.numpy()
        for value in segment.initializers
        if value.const_value is not None
    }
    places = tuple(graph.place_of(node) for node in segment.nodes)
    return Fallback(segment.nodes, places, stored, tuple(value.name or "" for value in segment.outputs))


def run_node(node: ir.Node, values: Mapping[str, np.ndarray], *, place: str) -> dict[str, np.ndarray]:
    """Return the outputs of one node of the domain ``netweave`` by name.

    Optional inputs that are left out are left out of what its forward is given, as of what its shape
    rule is.

    Raises:
        RunError: The forward cannot be carried out on these values.
    """
    entry = find_operator(node.op_type)
    inputs = [values[value.name or ""] for value in node.inputs if value is not None]
    try:
        with np.errstate(all="ignore"):  # infinities are values here, as in the sources
            made = entry.forward(inputs, attributes_of(node))
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
        shapes = ", ".join(str(array.shape) for array in inputs)
        raise RunError(f"{place}: {node.op_type} cannot run on inputs {shapes}: {error}") from error
    return {
        value.name: np.asarray(array) for value, array in zip(node.outputs, made, strict=False) if value.name
    }


class Step(Protocol):
    """One segment, ready to run."""

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the segment's outputs by name, given all values so far."""
        ...


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime that takes ONNX models.

    Attributes:
        takes: Whether it computes a node, and rightly.
        start: Makes a segment ready from its model and the names of its inputs and outputs.
        by_reference: Whether large arrays go beside the model; see ``build_model``.
        feeds_weights: Whether the largest of them are fed in each run; likewise.
        takes_sizes: Whether the model says the sizes of the net's inputs; likewise.
        max_nodes: Most nodes in a segment, for a runtime whose start grows faster than they do.
    """

    takes: Callable[[ir.Node], bool]
    start: Callable[[SegmentModel, tuple[str, ...], tuple[str, ...]], Step]
    by_reference: bool = False
    feeds_weights: bool = False
    takes_sizes: bool = False
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentedRunner:
    """A graph made ready to run.

    Attributes:
        inputs: The graph's inputs.
        steps: Its segments, in order.
        stored: Arrays of wanted values that no segment makes, by name.
        wanted: The values to return, outputs before taps: the name asked for, and the value's own.
    """

    inputs: tuple[ir.Value, ...]
    steps: tuple[Step, ...]
    stored: dict[str, np.ndarray]
    wanted: dict[str, str]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name; see ``netweave.runtime.backends.Runner``."""
        values = {**self.stored, **check_inputs(self.inputs, inputs)}
        for step in self.steps:
            values.update(step.run(values))
        return {name: values[own] for name, own in self.wanted.items()}


def prepare_segments(graph: Graph, names: Sequence[str], runtimes: Sequence[Runtime]) -> SegmentedRunner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    Args:
        graph: The graph; it is not changed.
        names: Names of the values to return.
        runtimes: The first one that takes a node computes it; what none takes is left to the registry.

    Raises:
        UsageError: There is no value of some name.
        RunError: A runtime refuses its part of the graph, or an operator is in no one's power.
    """
    wanted = graph.find(names)
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    return start_segments(graph, nodes, graph.inputs, wanted, runtimes)


def start_segments(
    graph: Graph,
    nodes: Sequence[ir.Node],
    inputs: Sequence[ir.Value],
    wanted: Mapping[str, ir.Value],
    runtimes: Sequence[Runtime],
) -> SegmentedRunner:
    """Make some nodes of a graph ready to run.

    Args:
        graph: The graph; it is not changed.
        nodes: The nodes, in its order.
        inputs: What a run is given.
        wanted: The values to return, by the names to return them under.
        runtimes: As for ``prepare_segments``, and so are the errors.
    """
    stored = {
        value.name or "": value.const_value.numpy()
        for value in wanted.values()
        if value.const_value is not None
    }
    steps = _started(_steps(graph, nodes, set(wanted.values()), runtimes))
    return SegmentedRunner(tuple(inputs), steps, stored, {n: v.name or "" for n, v in wanted.items()})


def _started(starts: Iterator[Callable[[], Step]]) -> tuple[Step, ...]:
    """Start segments in their order: while one starts, the next is written; a sole one needs no thread."""
    first = list(islice(starts, 2))
    if len(first) < 2:
        return tuple(start() for start in first)
    with ThreadPoolExecutor(num_cores()) as starting:
        begun = [starting.submit(start) for start in chain(first, starts)]
        return tuple(step.result() for step in begun)


def _steps(
    graph: Graph, nodes: Sequence[ir.Node], wanted: set[ir.Value], runtimes: Sequence[Runtime]
) -> Iterator[Callable[[], Step]]:
    """Yield what starts each segment of some nodes, once its model is written."""
    runtime, others = runtimes[0], runtimes[1:]
    opsets = {domain: v for domain, v in graph.model.opset_imports.items() if domain != DOMAIN}
    for segment in split(nodes, is_native=runtime.takes, wanted=wanted, max_nodes=runtime.max_nodes):
        if segment.native:
            yield partial(
                runtime.start,
                build_model(
                    segment,
                    graph.model,
                    opsets,
                    by_reference=runtime.by_reference,
                    feeds_weights=runtime.feeds_weights,
                    sized=graph.inputs if runtime.takes_sizes else (),
                ),
                tuple(value.name or "" for value in segment.inputs),
                tuple(value.name or "" for value in segment.outputs),
            )
        elif others:
            yield from _steps(graph, segment.nodes, set(segment.outputs), others)
        else:
            yield partial(fallback, segment, graph)


def wanted_names(graph: Graph, taps: Sequence[str]) -> list[str]:
    """Return the names of what a run returns, outputs before taps.

    Raises:
        UsageError: There is no value of some name.
    """
    return list(graph.find([*(value.name or "" for value in graph.outputs), *taps]))


def check_float32(settings: RunSettings, runtime: str) -> None:
    """Check that float32 is asked for, of a runtime that computes in nothing else.

    Raises:
        UsageError: It is not.
    """
    if settings.precision != "f32":
        raise UsageError(
            f"{runtime} computes in f32 on a CPU, not in {settings.precision}; take another backend"
        )


def check_domains(
    graph: Graph, known: Collection[str], runtime: str, *, nodes: Iterable[ir.Node] | None = None
) -> None:
    """Check that a runtime or the registry knows the domain of every operator.

    Args:
        graph: The graph.
        known: Domains that the runtime knows.
        runtime: Its name, for the message.
        nodes: Those of its nodes that are run; None for all.

    Raises:
        RunError: They do not; all operators are named.
    """
    run = graph.nodes if nodes is None else nodes
    all_known = {DOMAIN, *known, *(function[0] for function in graph.model.functions)}
    lacking = Counter(f"{node.domain}::{node.op_type}" for node in run if node.domain not in all_known)
    if lacking:
        listed = ", ".join(f"{name} ({count} nodes)" for name, count in lacking.items())
        raise RunError(f"{graph.name}: neither {runtime} nor Netweave has the operators {listed}")

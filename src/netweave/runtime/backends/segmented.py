"""A Graph made ready for runtimes of ONNX models: segment by segment, with the registry in between."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from netweave.errors import RunError, UsageError
from netweave.graph import DOMAIN
from netweave.graph.uses import needed_nodes
from netweave.runtime.backends.fallback import fallback
from netweave.runtime.backends.inputs import check_inputs
from netweave.runtime.backends.model import SegmentModel, build_model
from netweave.runtime.backends.segments import split
from netweave.runtime.engine.cores import num_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.runtime.backends.settings import RunSettings


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
    stored = {
        value.name or "": value.const_value.numpy()
        for value in wanted.values()
        if value.const_value is not None
    }
    with ThreadPoolExecutor(num_cores()) as starting:
        begun = list(_steps(graph, nodes, set(wanted.values()), runtimes, starting))
        steps = tuple(step.result() if isinstance(step, Future) else step for step in begun)
    return SegmentedRunner(tuple(graph.inputs), steps, stored, {n: v.name or "" for n, v in wanted.items()})


def _steps(
    graph: Graph,
    nodes: Sequence[ir.Node],
    wanted: set[ir.Value],
    runtimes: Sequence[Runtime],
    starting: Executor,
) -> Iterator[Step | Future[Step]]:
    """Yield the segments of some nodes, ready or starting: while one starts, the next is written."""
    runtime, others = runtimes[0], runtimes[1:]
    opsets = {domain: v for domain, v in graph.model.opset_imports.items() if domain != DOMAIN}
    for segment in split(nodes, is_native=runtime.takes, wanted=wanted, max_nodes=runtime.max_nodes):
        if segment.native:
            yield starting.submit(
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
            yield from _steps(graph, segment.nodes, set(segment.outputs), others, starting)
        else:
            yield fallback(segment, graph)


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


def check_domains(graph: Graph, known: Collection[str], runtime: str) -> None:
    """Check that a runtime or the registry knows the domain of every operator.

    Args:
        graph: The graph.
        known: Domains that the runtime knows.
        runtime: Its name, for the message.

    Raises:
        RunError: They do not; all operators are named.
    """
    own = {DOMAIN} | {function[0] for function in graph.model.functions}
    lacking = Counter(f"{n.domain}::{n.op_type}" for n in graph.nodes if n.domain not in {*known, *own})
    if lacking:
        listed = ", ".join(f"{name} ({count} nodes)" for name, count in lacking.items())
        raise RunError(f"{graph.name}: neither {runtime} nor Netweave has the operators {listed}")

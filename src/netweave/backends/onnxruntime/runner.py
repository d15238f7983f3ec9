"""Making a Graph ready for ONNX Runtime: segments, sessions, and the run through them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.backends.fallback import Fallback, fallback
from netweave.backends.inputs import check_inputs
from netweave.backends.onnxruntime.model import build_model
from netweave.backends.onnxruntime.session import Session, start
from netweave.backends.onnxruntime.sized import sized
from netweave.backends.segments import Segment, split
from netweave.errors import RunError
from netweave.graph import DOMAIN
from netweave.graph.uses import needed_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.backends.runner import Runner
    from netweave.graph import Graph

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


@dataclass(frozen=True, slots=True)
class OrtRunner:
    """A graph made ready to run.

    Attributes:
        inputs: The graph's inputs.
        steps: Its segments, in order.
        stored: Arrays of wanted values that no segment makes, by name.
        wanted: The values to return, outputs before taps: the name asked for, and the value's own.
    """

    inputs: tuple[ir.Value, ...]
    steps: tuple[Session | Fallback, ...]
    stored: dict[str, np.ndarray]
    wanted: dict[str, str]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name; see ``netweave.backends.Runner``."""
        values = {**self.stored, **check_inputs(self.inputs, inputs)}
        for step in self.steps:
            values.update(step.run(values))
        return {name: values[own] for name, own in self.wanted.items()}


def prepare(graph: Graph, taps: Sequence[str], *, level: str = "disabled", num_threads: int = 0) -> Runner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    A graph with a padding rule that ONNX Runtime refuses is made ready for each input size anew.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs.
        level: Graph optimisation level of ONNX Runtime, one of ``session.LEVELS``.
        num_threads: Threads inside an operator; 0 takes one for each core.

    Raises:
        UsageError: There is no such value to tap, or no such level.
        RunError: The graph holds operators that neither ONNX Runtime nor the registry has.
    """
    wanted = graph.find([*(value.name or "" for value in graph.outputs), *taps])
    _check_domains(graph)
    return sized(graph, lambda known: _ready(known, list(wanted), level=level, num_threads=num_threads))


def _ready(graph: Graph, names: Sequence[str], *, level: str, num_threads: int) -> OrtRunner:
    wanted = graph.find(names)
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    segments = split(nodes, is_native=lambda node: node.domain != DOMAIN, wanted=set(wanted.values()))
    opsets = {domain: v for domain, v in graph.model.opset_imports.items() if domain != DOMAIN}

    def ready(segment: Segment) -> Session | Fallback:
        if not segment.native:
            return fallback(segment, graph)
        return start(
            build_model(segment, graph.model, opsets),
            _places(graph),
            inputs=tuple(value.name or "" for value in segment.inputs),
            outputs=tuple(value.name or "" for value in segment.outputs),
            level=level,
            num_threads=num_threads,
        )

    stored = {
        value.name or "": value.const_value.numpy()
        for value in wanted.values()
        if value.const_value is not None
    }
    steps = tuple(ready(segment) for segment in segments)
    return OrtRunner(tuple(graph.inputs), steps, stored, {n: v.name or "" for n, v in wanted.items()})


def _places(graph: Graph) -> Callable[[str], str]:
    """Return what says where a node of a graph stands, given its name."""

    def place(name: str) -> str:
        node = next((node for node in graph.nodes if node.name == name), None)
        return f"{graph.name}: {name!r}" if node is None else graph.place_of(node)

    return place


def _check_domains(graph: Graph) -> None:
    known = _KNOWN_DOMAINS | {DOMAIN} | {function[0] for function in graph.model.functions}
    lacking = Counter(f"{n.domain}::{n.op_type}" for n in graph.nodes if n.domain not in known)
    if lacking:
        listed = ", ".join(f"{name} ({count} nodes)" for name, count in lacking.items())
        raise RunError(f"{graph.name}: neither ONNX Runtime nor Netweave has the operators {listed}")

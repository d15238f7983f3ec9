"""Making a Graph ready for ONNX Runtime: segments, sessions, and the run through them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.backends.fallback import Fallback, fallback
from netweave.backends.inputs import check_inputs
from netweave.backends.onnxruntime.model import build_model
from netweave.backends.onnxruntime.session import Session, start
from netweave.backends.segments import Segment, split
from netweave.errors import RunError
from netweave.graph import DOMAIN
from netweave.graph.uses import needed_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.graph import Graph

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


@dataclass(frozen=True, slots=True)
class OrtRunner:
    """A graph made ready to run.

    Attributes:
        inputs: The graph's inputs.
        steps: Its segments, in order.
        stored: Arrays of wanted values that no segment makes, by name.
        wanted: Names of the values to return: outputs, then taps.
    """

    inputs: tuple[ir.Value, ...]
    steps: tuple[Session | Fallback, ...]
    stored: dict[str, np.ndarray]
    wanted: tuple[str, ...]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name; see ``netweave.backends.Runner``."""
        values = {**self.stored, **check_inputs(self.inputs, inputs)}
        for step in self.steps:
            values.update(step.run(values))
        return {name: values[name] for name in self.wanted}


def prepare(graph: Graph, taps: Sequence[str], *, level: str = "disabled", num_threads: int = 0) -> OrtRunner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs; they must exist.
        level: Graph optimisation level of ONNX Runtime, one of ``session.LEVELS``.
        num_threads: Threads inside an operator; 0 takes one for each core.

    Raises:
        RunError: The graph holds operators that neither ONNX Runtime nor the registry has.
    """
    own = {function[0] for function in graph.model.functions}
    _check_domains(graph, _KNOWN_DOMAINS | own | {DOMAIN})
    wanted = {value.name or "": value for value in graph.outputs}
    if taps:
        values = graph.values()
        wanted.update((name, values[name]) for name in taps)
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    segments = split(nodes, is_native=lambda node: node.domain != DOMAIN, wanted=set(wanted.values()))
    opsets = {d: v for d, v in graph.model.opset_imports.items() if d in _KNOWN_DOMAINS | own}

    def ready(segment: Segment) -> Session | Fallback:
        if not segment.native:
            return fallback(segment)
        return start(
            build_model(segment, graph.model, opsets),
            inputs=tuple(value.name or "" for value in segment.inputs),
            outputs=tuple(value.name or "" for value in segment.outputs),
            level=level,
            num_threads=num_threads,
        )

    stored = {
        name: value.const_value.numpy() for name, value in wanted.items() if value.const_value is not None
    }
    steps = tuple(ready(segment) for segment in segments)
    return OrtRunner(tuple(graph.inputs), steps, stored, tuple(wanted))


def _check_domains(graph: Graph, known: frozenset[str]) -> None:
    lacking = Counter(f"{n.domain}::{n.op_type}" for n in graph.nodes if n.domain not in known)
    if lacking:
        listed = ", ".join(f"{name} ({count} nodes)" for name, count in lacking.items())
        raise RunError(f"{graph.name}: neither ONNX Runtime nor Netweave has the operators {listed}")

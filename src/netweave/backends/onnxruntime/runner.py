"""Making a Graph ready for ONNX Runtime: segments, sessions, and the run through them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from netweave.backends.onnxruntime.session import start
from netweave.backends.onnxruntime.sized import sized
from netweave.backends.segmented import Runtime, SegmentedRunner, check_domains, prepare_segments
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.backends.runner import Runner
    from netweave.graph import Graph

MAX_NODES = 1000
"""Nodes of one session where none are merged: starting one takes time that grows faster than its nodes."""

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


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
    names = list(graph.find([*(value.name or "" for value in graph.outputs), *taps]))
    check_domains(graph, _KNOWN_DOMAINS, "ONNX Runtime")

    def ready(known: Graph) -> SegmentedRunner:
        return prepare_segments(known, names, [runtime(known, level=level, num_threads=num_threads)])

    return sized(graph, ready)


def runtime(graph: Graph, *, level: str = "disabled", num_threads: int = 0) -> Runtime:
    """Return ONNX Runtime as something that runs segments of a graph; settings as for ``prepare``."""
    begin = partial(start, places=_places(graph), level=level, num_threads=num_threads)
    return Runtime(
        takes=lambda node: node.domain != DOMAIN,
        start=begin,
        by_reference=True,
        max_nodes=MAX_NODES if level == "disabled" else None,
    )


def _places(graph: Graph) -> Callable[[str], str]:
    """Return what says where a node of a graph stands, given its name."""

    def place(name: str) -> str:
        node = next((node for node in graph.nodes if node.name == name), None)
        return f"{graph.name}: {name!r}" if node is None else graph.place_of(node)

    return place

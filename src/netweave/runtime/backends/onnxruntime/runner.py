"""Making a Graph ready for ONNX Runtime: segments, sessions, and the run through them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from netweave.graph import DOMAIN
from netweave.runtime.backends.onnxruntime.same_padding import sized
from netweave.runtime.backends.onnxruntime.session import SESSIONS, start
from netweave.runtime.backends.segmented import (
    Runtime,
    SegmentedRunner,
    check_domains,
    check_float32,
    prepare_segments,
    wanted_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.graph import Graph
    from netweave.runtime.backends.runner import Runner
    from netweave.runtime.backends.settings import RunSettings

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def prepare(graph: Graph, taps: Sequence[str], settings: RunSettings) -> Runner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    A graph with a padding rule that ONNX Runtime refuses is made ready for each input size anew.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs.
        settings: Purpose, precision and threads.

    Raises:
        UsageError: There is no such value to tap, or the precision is not float32.
        RunError: The graph holds operators that neither ONNX Runtime nor the registry has.
    """
    check_float32(settings, "ONNX Runtime")
    names = wanted_names(graph, taps)
    check_domains(graph, _KNOWN_DOMAINS, "ONNX Runtime")

    def ready(known: Graph) -> SegmentedRunner:
        return prepare_segments(known, names, [runtime(known, settings)])

    return sized(graph, ready)


def runtime(graph: Graph, settings: RunSettings) -> Runtime:
    """Return ONNX Runtime as something that runs segments of a graph."""
    own = SESSIONS[settings.purpose]
    return Runtime(
        takes=lambda node: node.domain != DOMAIN,
        start=partial(start, places=_places(graph), settings=settings),
        by_reference=True,
        feeds_weights=own.feeds_weights,
        takes_sizes=own.plans_memory,
        max_nodes=own.max_nodes,
    )


def _places(graph: Graph) -> Callable[[str], str]:
    """Return what says where a node of a graph stands, given its name."""

    def place(name: str) -> str:
        node = next((node for node in graph.nodes if node.name == name), None)
        return f"{graph.name}: {name!r}" if node is None else graph.place_of(node)

    return place

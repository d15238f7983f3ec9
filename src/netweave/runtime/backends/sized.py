"""A Graph that is made ready for each size of its inputs when it is first met."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from netweave.graph.passes import specialise
from netweave.runtime.backends.inputs import check_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from netweave.graph import Graph
    from netweave.runtime.backends.runner import Runner

MAX_SIZES = 4
"""Runners for the last input sizes that are kept; each holds the weights of the net."""


class SizedRunner:
    """A graph of which a backend makes one form for each size of its inputs.

    Args:
        graph: The graph; it is not changed.
        make: Makes a graph ready whose sizes are known.
    """

    def __init__(self, graph: Graph, make: Callable[[Graph], Runner]) -> None:
        self._graph = graph
        self._make = make
        self._ready: dict[tuple[tuple[int, ...], ...], Runner] = {}
        self._lock = Lock()

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name; see ``netweave.runtime.backends.Runner``."""
        arrays = check_inputs(self._graph.inputs, inputs)
        return self.at({name: array.shape for name, array in arrays.items()}).run(arrays)

    def at(self, shapes: Mapping[str, Sequence[int]]) -> Runner:
        """Return the form for the shapes of all inputs, by name."""
        key = tuple(tuple(shapes[value.name or ""]) for value in self._graph.inputs)
        with self._lock:
            runner = self._ready.pop(key, None) or self._make(specialise(self._graph, shapes))
            self._ready[key] = runner
            if len(self._ready) > MAX_SIZES:
                del self._ready[next(iter(self._ready))]
        return runner

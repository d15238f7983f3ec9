"""What every backend offers, and the way from a name to a backend."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from netweave.errors import RunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.graph import Graph

BACKENDS = ("onnxruntime", "openvino", "torch")
"""Names of the backends; each is a module or package of ``netweave.backends``."""


class Runner(Protocol):
    """A graph made ready to run."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name.

        Args:
            inputs: One array for each input of the graph, by name; any batch size.

        Raises:
            RunError: An input is missing, unknown or of the wrong shape, or the run fails.
        """
        ...


def prepare(
    graph: Graph, *, taps: Sequence[str] = (), backend: str = "onnxruntime", **options: Any
) -> Runner:
    """Make a graph ready to run.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs; also names that passes left behind
            (``Graph.aliases``).
        backend: One of ``BACKENDS``.
        options: What the backend's own ``prepare`` takes besides (``level``, ``num_threads``).

    Raises:
        UsageError: There is no such backend, or it is not installed, or there is no such value to tap, or
            an option is wrong.
        RunError: The backend cannot run the graph.
    """
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend {backend!r}; expected one of {', '.join(BACKENDS)}")
    if graph.only_weights:
        raise RunError(f"{graph.name}: holds only weights; there is no net to run")
    graph.find(taps)
    try:
        module = importlib.import_module(f"netweave.backends.{backend}")
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("netweave"):
            raise
        raise UsageError(
            f"backend {backend!r} needs {error.name!r}, which is not installed: "
            f"pip install 'netweave[{backend}]'"
        ) from error
    runner: Runner = module.prepare(graph, list(taps), **options)
    return runner

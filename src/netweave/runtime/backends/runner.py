"""The interface of every backend, and the way from a name to a backend."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from netweave.errors import RunError, UsageError
from netweave.installation import install_command
from netweave.runtime.backends.settings import BACKENDS, TAPPING, RunSettings

if TYPE_CHECKING:
    import numpy as np

    from netweave.graph import Graph


class Runner(Protocol):
    """A graph made ready to run; several threads may run it at once."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name.

        Args:
            inputs: One array for each input of the graph, by name; any batch size.

        Raises:
            RunError: An input is missing, unknown or of the wrong shape, or the run fails.
        """
        ...


def prepare(
    graph: Graph,
    *,
    taps: Sequence[str] = (),
    backend: str = "onnxruntime",
    settings: RunSettings = TAPPING,
) -> Runner:
    """Make a graph ready to run.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs; also names that passes left behind
            (``Graph.aliases``).
        backend: One of ``BACKENDS``.
        settings: What it is made ready for, in which precision and for how many threads.

    Raises:
        UsageError: There is no such backend, or it is not installed or does not compute in this precision
            here, or there is no such value to tap.
        RunError: The backend cannot run the graph.
    """
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend {backend!r}; expected one of {', '.join(BACKENDS)}")
    if graph.only_weights:
        raise RunError(f"{graph.name}: holds only weights; there is no net to run")
    graph.find(taps)
    try:
        module = importlib.import_module(f"netweave.runtime.backends.{backend}")
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("netweave"):
            raise
        raise UsageError(
            f"backend {backend!r} needs {error.name!r}, which is not installed: {install_command(backend)}"
        ) from error
    runner: Runner = module.prepare(graph, list(taps), settings)
    return runner

"""The interface and the settings of every backend, and the way from a name to a backend."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from netweave.errors import RunError, UsageError
from netweave.installation import install_command
from netweave.runtime.engine.threaded import num_cores

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from netweave.graph import Graph

TORCH = "torch"
"""The backend that trains, too; its package and the extra that installs it have the same name."""

BACKENDS = ("onnxruntime", "openvino", "opencv", TORCH)
"""Names of the backends; each is a module or package of ``netweave.runtime.backends``."""

AUTO = "auto"
"""In the place of a name: the fastest backend, chosen by trying (``selection``)."""

PRECISIONS = ("f32", "bf16", "f16")
"""What convolutions and matrix products are computed in; inputs and outputs keep their types."""


class Purpose(enum.Enum):
    """The purpose for which a Graph is prepared."""

    TAPPING = "tapping"
    """One run or two, in which any value may be read: no optimisation, so that bits do not depend on taps."""

    INFERENCE = "inference"
    """Many runs for the outputs alone: everything that the backend can do ahead is done ahead."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings that every backend knows.

    Attributes:
        purpose: What the graph is made ready for.
        precision: One of ``PRECISIONS``.
        threads: Threads that one run computes with; 0 leaves it to the backend.
        usual_sizes: Shapes of the inputs in most runs, by name: a backend may be faster at them, at no cost
            to others but memory.

    Raises:
        UsageError: There is no such precision, or the number of threads is not one.
    """

    purpose: Purpose = Purpose.TAPPING
    precision: str = "f32"
    threads: int = 0
    usual_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"unknown precision {self.precision!r}; expected one of {', '.join(PRECISIONS)}")
        if self.threads < 0:
            raise UsageError(f"threads is {self.threads!r}, expected a whole number >= 1")

    @property
    def num_threads(self) -> int:
        """Threads that one run computes with: those asked for, else one for each core of the process."""
        return self.threads or num_cores()


TAPPING = RunSettings()
"""What comparing runs nets with."""


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
    runner: Runner = _function(backend, "prepare")(graph, list(taps), settings)
    return runner


def prepare_nodes(
    graph: Graph, nodes: Sequence[ir.Node], *, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> Runner:
    """Make some nodes of a graph ready to run on ONNX Runtime, without a copy of them.

    Args:
        graph: The graph; it is not changed.
        nodes: The nodes, in its order.
        inputs: What they read and do not make, but for initializers; a run is given these, by name.
        outputs: What a run returns of what they make.

    Raises:
        UsageError: ONNX Runtime is not installed.
        RunError: It cannot run them.
    """
    runner: Runner = _function("onnxruntime", "prepare_nodes")(graph, nodes, inputs, outputs, TAPPING)
    return runner


def _function(backend: str, name: str) -> Any:
    try:  # a backend may load its library when one of its names is first used
        return getattr(importlib.import_module(f"netweave.runtime.backends.{backend}"), name)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("netweave"):
            raise
        raise UsageError(
            f"backend {backend!r} needs {error.name!r}, which is not installed: {install_command(backend)}"
        ) from error

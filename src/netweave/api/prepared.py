"""A net made ready to run many times, on the fastest backend that is installed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.arguments import check_arrays
from netweave.api.arrays import draw_inputs
from netweave.api.nets import load_for_inputs, run_settings, to_inference
from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.runtime.backends import AUTO, BACKENDS, Purpose
from netweave.runtime.backends import prepare as prepare_on
from netweave.runtime.backends.inputs import check_inputs
from netweave.runtime.backends.selection import select
from netweave.runtime.engine.cores import num_cores

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from netweave.runtime.backends import Runner, RunSettings
    from netweave.runtime.backends.selection import BackendTrial


class PreparedNet:
    """A net that is ready to run, any number of times; ``netweave.prepare`` returns it.

    Several threads may run it at once. Its weights are freed by ``close``, or at the end of a ``with`` block.

    Attributes:
        graph: The net in inference form; its inputs and outputs are those of ``run``.
        backend: Name of the backend that runs it.
        precision: What convolutions and matrix products are computed in.
        threads: Threads that one run computes with.
        trials: What came of trying each backend, the fastest first; empty if the caller chose the backend.
    """

    def __init__(
        self,
        graph: Graph,
        settings: RunSettings,
        backend: str,
        runner: Runner,
        trials: tuple[BackendTrial, ...] = (),
    ) -> None:
        self.graph = graph
        self.backend = backend
        self.precision = settings.precision
        self.threads = settings.threads
        self.trials = trials
        self._runner: Runner | None = runner

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Args:
            inputs: One array for each input, by name; any batch size, in turn as they come.

        Raises:
            RunError: An input is missing, unknown or of the wrong shape, or the run fails.
            UsageError: The inputs are not arrays by name, or the net is closed.
        """
        runner = self._runner
        if runner is None:
            raise UsageError(f"{self.graph.name}: the prepared net is closed; prepare it again")
        check_arrays(inputs, what="inputs", names=[str(value.name) for value in self.graph.inputs])
        return runner.run(inputs)

    def close(self) -> None:
        """Free what the backend holds; runs that have begun in other threads still end."""
        self._runner = None

    def __enter__(self) -> PreparedNet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        settings = f"{self.backend}, {self.precision}, {self.threads} threads"
        return f"PreparedNet({self.graph.name!r}, {settings}{'' if self._runner else ', closed'})"


def prepare(
    net: Any,
    *,
    backend: str = AUTO,
    precision: str = "f32",
    threads: int | None = None,
    batch: int | None = None,
    example: Mapping[str, np.ndarray] | None = None,
) -> PreparedNet:
    """Make a net ready to run many times, for its outputs alone.

    The net is brought into inference form: without dropout, losses, metrics and labels, with BatchNorm
    folded. Everything that can be done ahead is done now; ``run`` is for one run, and to read values inside.

        with netweave.prepare("net.onnx", precision="bf16") as net:
            for images in batches:
                scores = net.run({"data": images})["prob"]

    Args:
        net: A Graph, or files as for ``load``.
        backend: ``onnxruntime``, ``openvino``, ``opencv``, ``torch``, or ``auto``: those that are installed
            are tried, and the fastest one is taken whose outputs are right.
        precision: What convolutions and matrix products are computed in: ``f32``, ``bf16`` or ``f16``. Inputs
            and outputs keep their types.
        threads: Threads that one run computes with; by default one for each core.
        batch: Batch size of most runs, at which the backends are tried; by default the one that the net's
            files declare, or 1. Any other runs as well.
        example: Inputs such as most runs have, to try the backends on; by default random ones.

    Raises:
        SourceError: The files cannot be read.
        RunError: No backend can run the net; the message says why for each.
        UsageError: There is no such backend or precision, the backend is not installed or does not have the
            precision on this processor, or the size of an input is unknown and no example is given.
    """
    if backend not in (AUTO, *BACKENDS):
        raise UsageError(f"unknown backend {backend!r}; expected one of {', '.join([AUTO, *BACKENDS])}")
    settings = run_settings(Purpose.INFERENCE, precision, num_cores() if threads is None else threads)
    graph = net if isinstance(net, Graph) else load_for_inputs(net, example or {})
    form = to_inference(graph, folded=True)
    inputs = _usual_inputs(form, batch, example, needed=backend == AUTO)
    settings = replace(settings, usual_sizes={name: np.shape(array) for name, array in inputs.items()})
    if backend != AUTO:
        runner = prepare_on(form, backend=backend, settings=settings)
        return PreparedNet(form, settings, backend=backend, runner=runner)
    selection = select(form, settings, inputs)
    return PreparedNet(
        form, settings, backend=selection.backend, runner=selection.runner, trials=selection.trials
    )


def _usual_inputs(
    graph: Graph, batch: int | None, example: Mapping[str, np.ndarray] | None, *, needed: bool
) -> Mapping[str, np.ndarray]:
    """Return inputs such as most runs have; none where their sizes are unknown and not needed."""
    if example is not None:
        return check_inputs(graph.inputs, check_arrays(example, what="example", names=list(graph.declared)))
    try:
        return draw_inputs(graph, seed=0, batch=batch)
    except UsageError:
        if needed:
            raise
        return {}

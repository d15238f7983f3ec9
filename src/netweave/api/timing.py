"""Timing: of the layers of a net as ``caffe time`` reports it, of a whole net, and of its optimised form."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.api.arguments import check_count, draw_inputs
from netweave.api.inspecting import prepare
from netweave.api.reading import load, run_settings, to_inference
from netweave.api.runs import load_phases, need_torch
from netweave.graph import Graph, layer_keys, total_cost
from netweave.runtime.backends import AUTO, Purpose
from netweave.runtime.backends import prepare as prepare_on
from netweave.runtime.backends.selection import BackendTrial

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.timing import Seconds


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The mean times of one layer, or of several layers that one kernel computes.

    Attributes:
        name: Name of the layer; several are joined by `` + ``.
        keys: Keys of the layers.
        type: Type in the source.
        forward_s: Forward time.
        backward_s: Backward time; 0 if no gradient passes through.
    """

    name: str
    type: str
    forward_s: float
    backward_s: float
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NetTime:
    """The times of a net.

    Attributes:
        layers: Times of the layers, each run by itself, in the order of the net.
        forward_s: Mean time of a forward pass through the whole net.
        backward_s: Mean time of a backward pass; 0 if it was not measured.
        inputs: Shapes of the inputs by name.
        iterations: Number of passes averaged over.
    """

    layers: tuple[LayerTime, ...]
    forward_s: float
    backward_s: float
    inputs: Mapping[str, tuple[int, ...]]
    iterations: int


@dataclass(frozen=True, slots=True)
class InferenceTime:
    """The time that a net takes when ``prepare`` runs it.

    Attributes:
        backend: Name of the backend that was timed.
        precision: What convolutions and matrix products were computed in.
        threads: Threads that one run computed with.
        runs_s: Time of each run.
        inputs: Shapes of the inputs by name.
        trials: What came of trying each backend, the fastest first; empty if the caller chose the backend.
    """

    backend: str
    precision: str
    threads: int
    runs_s: tuple[float, ...]
    inputs: Mapping[str, tuple[int, ...]]
    trials: tuple[BackendTrial, ...]


def load_for_timing(
    net: str | Path,
    phase: str = "TRAIN",
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
    trust: bool = False,
) -> Graph:
    """Read a net; Caffe data layers take their sizes from the data, if it is available.

    Args:
        net: A solver, or files as for ``load``.
        phase: ``TRAIN`` or ``TEST``, for formats with phases.
        input_shapes: Input sizes by name, if the file does not give them or to override them.
        stages: Stages, for formats that have them.
        level: Level, for formats that have it.
        trust: Run Python code in the files without the sandbox.

    Raises:
        SourceError: The files cannot be read, or do not give the sizes.
    """
    said: dict[str, Any] = {"input_shapes": input_shapes, "stages": stages, "level": level}
    if str(net).endswith(".prototxt") and Path(net).is_file():
        phases = load_phases(net, phase, missing_data=True, **said)
        return next(iter(phases.values())).graph
    return load(net, phase=phase, trust=trust, **said)


def time_layers(
    net: Graph | str | Path,
    *,
    iterations: int = 10,
    backward: bool = True,
    device: str = "cpu",
    told: Callable[[int, int], None] = lambda done, of: None,
) -> NetTime:
    """Measure the time of each layer of a net, and of the whole net, on random inputs.

    The net is in training mode if gradients are measured, otherwise in test mode. Data layers are not timed.

    Args:
        net: A net, or files as for ``load_for_timing``.
        iterations: Number of passes after a warm-up pass, >= 1.
        backward: Whether to measure the backward pass too.
        device: Torch's name of the device to compute on.
        told: Called with the number of passes done and the total.

    Raises:
        SourceError: The files cannot be read.
        UsageError: Torch is not installed, there is no such device, or a size is unknown.
        RunError: A layer cannot be run.
    """
    need_torch()
    from netweave.runtime.backends.torch.timing import measure

    graph = net if isinstance(net, Graph) else load_for_timing(net)
    labels = label_inputs(graph)
    arrays = {
        name: np.zeros_like(array) if name in labels else array
        for name, array in draw_inputs(graph, 0).items()
    }
    measured = measure(graph, arrays, iterations=iterations, backward=backward, device=device, told=told)
    sizes = {name: array.shape for name, array in arrays.items()}
    return NetTime(
        _by_layer(graph, measured.of_node), measured.forward_s, measured.backward_s, sizes, iterations
    )


def time_inference(
    net: Graph | str | Path,
    *,
    iterations: int = 10,
    backend: str = AUTO,
    precision: str = "f32",
    threads: int | None = None,
) -> InferenceTime:
    """Measure how long a net takes as ``prepare`` runs it, on random inputs of the declared sizes.

    Args:
        net: A net, or files as for ``load``.
        iterations: Number of runs after a warm-up run, >= 1.
        backend: As for ``prepare``.
        precision: As for ``prepare``.
        threads: As for ``prepare``.

    Raises:
        SourceError: The files cannot be read.
        UsageError: A size is unknown, or as ``prepare`` does.
        RunError: No backend can run the net.
    """
    graph = to_inference(net if isinstance(net, Graph) else load(net))
    inputs = draw_inputs(graph, seed=0)
    with prepare(
        graph, backend=backend, precision=precision, threads=threads, example=inputs, again=True
    ) as prepared:
        prepared.run(inputs)
        runs: list[float] = []
        for _ in range(check_count(iterations, "iterations", least=1)):
            began = time.perf_counter()
            prepared.run(inputs)
            runs.append(time.perf_counter() - began)
    sizes = {name: array.shape for name, array in inputs.items()}
    return InferenceTime(
        prepared.backend, prepared.precision, prepared.threads, tuple(runs), sizes, prepared.trials
    )


def label_inputs(graph: Graph) -> set[str]:
    """Return the label inputs of losses and metrics: they hold class numbers, for which 0 is valid."""
    return {
        value.name or ""
        for value in graph.inputs
        if value.uses() and all(node.domain == "netweave" and index for node, index in value.uses())
    }


def _by_layer(graph: Graph, seconds: Mapping[ir.Node, Seconds]) -> tuple[LayerTime, ...]:
    times: dict[tuple[str, ...], list[float]] = {}
    for node in graph.nodes:
        if node in seconds:
            keys = layer_keys(node) or (node.name or node.op_type,)
            sums = times.setdefault(keys, [0.0, 0.0])
            sums[0] += seconds[node].forward
            sums[1] += seconds[node].backward
    return tuple(
        LayerTime(
            " + ".join(graph.layers[key].name if key in graph.layers else key for key in keys),
            " + ".join(graph.layers[key].type for key in keys if key in graph.layers),
            forward,
            backward,
            keys,
        )
        for keys, (forward, backward) in times.items()
    )


ROUNDS = 11
"""Runs of each net, interleaved; the first round is a warm-up."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The cost of a net.

    Attributes:
        nodes: Number of nodes.
        elements: Number of stored elements that the nodes read.
        multiply_adds: For one example.
        median_s: Median time of a run.
        fastest_s: The fastest run.
    """

    nodes: int
    elements: int
    multiply_adds: int
    median_s: float
    fastest_s: float


@dataclass(frozen=True, slots=True)
class Gain:
    """The costs of a net in inference form and of its optimised form.

    Attributes:
        before: Of the inference form.
        after: Of the optimised form.
        backend: The backend that was timed.
    """

    before: Standing
    after: Standing
    backend: str


def gain_of(
    graph: Graph,
    form: Graph,
    *,
    rounds: int = ROUNDS,
    backend: str = AUTO,
    precision: str = "f32",
    threads: int | None = None,
) -> Gain:
    """Return the gain of an optimised form of a net over its plain inference form.

    Both run interleaved, on the same random inputs, on the backend that is the fastest for the optimised
    form, with its own optimisations.

    Args:
        graph: The net.
        form: A form of the net that computes the same function of the same inputs.
        rounds: Counted runs of each, >= 1.
        backend: As for ``prepare``.
        precision: As for ``prepare``.
        threads: As for ``prepare``.

    Raises:
        RunError: One of them cannot be run.
        UsageError: The size of an input is unknown, or as ``prepare`` does.
    """
    plain = to_inference(graph)
    inputs = {name: array[:1] for name, array in draw_inputs(plain, seed=0).items()}
    with prepare(form, backend=backend, precision=precision, threads=threads, example=inputs) as prepared:
        settings = run_settings(Purpose.INFERENCE, precision, prepared.threads)
        runners = [prepare_on(plain, backend=prepared.backend, settings=settings), prepared]
        times: list[list[float]] = [[], []]
        for number in range(rounds + 1):
            for runner, taken in zip(runners, times, strict=True):
                begin = time.perf_counter()
                runner.run(inputs)
                if number:
                    taken.append(time.perf_counter() - begin)
    before, after = (_standing(each, taken) for each, taken in zip((plain, form), times, strict=True))
    return Gain(before, after, prepared.backend)


def _standing(graph: Graph, times: list[float]) -> Standing:
    stored = [value.const_value for value in graph.model.graph.initializers.values() if value.uses()]
    return Standing(
        nodes=len(graph.nodes),
        elements=sum(tensor.size for tensor in stored if tensor is not None),
        multiply_adds=total_cost(graph).multiply_adds,
        median_s=median(times),
        fastest_s=min(times),
    )

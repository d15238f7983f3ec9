"""What a net gains by being written for inference: nodes, parameters, multiply-adds, and time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netweave.api.arrays import draw_inputs
from netweave.backends import prepare
from netweave.graph import total_cost
from netweave.passes import to_inference

if TYPE_CHECKING:
    from netweave.graph import Graph

ROUNDS = 11
"""Runs of each net, one after the other in turns; the first round is not counted."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a net costs.

    Attributes:
        nodes: Number of nodes.
        elements: Stored elements that its nodes read.
        multiply_adds: For one example.
        median_s: Median time of a run of ONNX Runtime.
        fastest_s: The fastest run.
    """

    nodes: int
    elements: int
    multiply_adds: int
    median_s: float
    fastest_s: float


@dataclass(frozen=True, slots=True)
class Gain:
    """A net as it predicts, and the same one in another form."""

    before: Standing
    after: Standing


def gain_of(graph: Graph, form: Graph, *, rounds: int = ROUNDS) -> Gain:
    """Return what a form of a net for inference gains on the net as it predicts.

    Both run on ONNX Runtime, with its own optimisations, in turns on the same drawn inputs.

    Args:
        graph: The net.
        form: A form of it that computes the same from the same inputs.
        rounds: Runs of each that count, >= 1.

    Raises:
        RunError: One of them cannot be run.
        UsageError: Sizes of inputs are not known.
    """
    plain = to_inference(graph)
    inputs = {name: array[:1] for name, array in draw_inputs(plain, seed=0).items()}
    runners = [prepare(each, backend="onnxruntime") for each in (plain, form)]
    times: list[list[float]] = [[], []]
    for number in range(rounds + 1):
        for runner, taken in zip(runners, times, strict=True):
            begin = time.perf_counter()
            runner.run(inputs)
            if number:
                taken.append(time.perf_counter() - begin)
    before, after = (_standing(each, taken) for each, taken in zip((plain, form), times, strict=True))
    return Gain(before, after)


def _standing(graph: Graph, times: list[float]) -> Standing:
    stored = [value.const_value for value in graph.model.graph.initializers.values() if value.uses()]
    return Standing(
        nodes=len(graph.nodes),
        elements=sum(tensor.size for tensor in stored if tensor is not None),
        multiply_adds=total_cost(graph).multiply_adds,
        median_s=median(times),
        fastest_s=min(times),
    )

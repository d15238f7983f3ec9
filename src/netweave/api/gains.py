"""The gain of an inference export: nodes, parameters, multiply-adds, and time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netweave.api.arrays import draw_inputs
from netweave.api.nets import run_settings
from netweave.api.prepared import prepare
from netweave.graph import total_cost
from netweave.graph.passes import to_inference
from netweave.runtime.backends import AUTO, Purpose
from netweave.runtime.backends import prepare as prepare_on

if TYPE_CHECKING:
    from netweave.graph import Graph

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

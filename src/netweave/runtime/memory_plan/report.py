"""The plans of a net beside each other: what each needs, and what it costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from netweave.graph import Graph, total_cost
from netweave.runtime.memory_plan.lifetimes import Timeline, share
from netweave.runtime.memory_plan.net import prepare
from netweave.runtime.memory_plan.program import timeline
from netweave.runtime.memory_plan.recompute import cheapest, square_root, tile_to_fit


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory needs of one plan.

    Attributes:
        name: What it does.
        num_bytes: What it needs for values, gradients of values and kernels; stored arrays, their gradients
            and inputs are not in it.
        extra_multiply_adds: Multiply-adds of what is computed a second time.
        timeline: What is alive when, where the plan says that.
    """

    name: str
    num_bytes: int
    extra_multiply_adds: int = 0
    timeline: Timeline | None = None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The plans of a net.

    Attributes:
        batch: Records in a batch.
        training: Whether it is a training step; otherwise a run forward.
        parameters: Bytes of all stored arrays.
        parameter_gradients: Bytes of their gradients, 0 for inference.
        inputs: Bytes of a batch.
        multiply_adds: Of a run, or of a step, in which backward does twice those of forward.
        plans: The plans, from the one that shares nothing.
        step_peak: The most bytes alive in a run or a step by the plan that torch carries out, gradients of
            parameters among them, scratch memory of further threads not.
    """

    batch: int
    training: bool
    parameters: int
    parameter_gradients: int
    inputs: int
    multiply_adds: int
    plans: tuple[MemoryPlan, ...]
    step_peak: int


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """The most bytes that torch's allocator had given out at once in a run or a step.

    Attributes:
        peak: With one thread, for ``MemoryReport.step_peak`` is about one.
        num_threads: Threads that torch computes with.
        peak_with_threads: With all of them: kernels have scratch memory for each.
    """

    peak: int
    num_threads: int
    peak_with_threads: int


def report(
    graph: Graph,
    *,
    batch: int,
    training: bool = False,
    losses: Collection[str] | None = None,
    limit: int | None = None,
) -> MemoryReport:
    """Return what a net needs by each plan.

    Args:
        graph: The net, with sizes that are known but for the batch; a value whose size is not counts as 0.
        batch: Records in a batch.
        training: Whether gradients are computed.
        losses: Names of the values that gradients begin at; all outputs if nothing is said.
        limit: Bytes of a step that the last plan is to stay within; half of what it takes if nothing is said.
            Of a run forward: what its layers are tiled for.

    Raises:
        UsageError: A run forward cannot be tiled to fit.
    """
    plain = prepare(graph, batch=batch, training=training, losses=losses, in_place=False)
    net = prepare(graph, batch=batch, training=training, losses=losses)
    alone, shared = timeline(plain), timeline(net)
    inner_alone, inner = alone.without("parameter gradient"), shared.without("parameter gradient")
    plans = [
        MemoryPlan("none", inner_alone.total),
        MemoryPlan("in place", inner.total),
        MemoryPlan("co-share", share(inner_alone.buffers).num_bytes),
        MemoryPlan("both", share(inner.buffers).num_bytes),
        MemoryPlan("liveness bound", inner.peak, timeline=shared),
    ]
    if training:
        wanted = shared.peak // 2 if limit is None else limit
        name = "recomputed, half" if limit is None else "recomputed, to the limit"
        alternatives = {"recomputed, sqrt(N)": square_root(net), name: cheapest(net, wanted)}
        for name, one in alternatives.items():
            rest = one.timeline.without("parameter gradient")
            plans.append(MemoryPlan(name, rest.peak, one.timeline.recompute_multiply_adds, one.timeline))
    elif limit is not None:
        plans.append(_tiled(graph, batch, limit))
    gradients = sum(b.num_bytes for b in shared.buffers if b.kind == "parameter gradient")
    return MemoryReport(
        batch=batch,
        training=training,
        parameters=sum(4 * parameter.size for parameter in graph.parameters.values()),
        parameter_gradients=gradients,
        inputs=sum(net.bytes_of(value) for value in graph.inputs),
        multiply_adds=(3 if training else 1) * total_cost(graph, batch=batch).multiply_adds,
        plans=tuple(plans),
        step_peak=shared.peak,
    )


def _tiled(graph: Graph, batch: int, limit: int) -> MemoryPlan:
    tiled = tile_to_fit(graph, limit, batch=batch)
    plan = timeline(prepare(tiled, batch=batch))
    more = total_cost(tiled, batch=batch).multiply_adds - total_cost(graph, batch=batch).multiply_adds
    return MemoryPlan("tiled, to the limit", plan.peak, more, plan)

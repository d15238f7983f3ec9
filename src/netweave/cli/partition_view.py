"""Nets that are cut across workers as text: who computes what, the bytes on each edge, and plans of runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD
from netweave.graph.passes.partition import channels_text, placements, places_text
from netweave.graph.summary import bytes_text

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.graph.passes.partition import PartitionPlan, Sharding
    from netweave.training.planning import PlannedScheme, RunPlan

FLOAT_BYTES = 4
"""Bytes of a number; training in double precision moves twice as many."""


AMOUNTS = frozenset(
    {"numbers", "bytes", "parameters", "update", "computes", "samples/s", "efficiency", "memory", "sends"}
)
"""Heads of columns of numbers."""


def show_partition(console: Console, plan: PartitionPlan) -> None:
    """Print who computes what, and what goes from worker to worker.

    Args:
        console: Where to.
        plan: The plan of the net.
    """
    console.print(_layers(plan))
    console.print(_edges(plan))
    console.print(_workers(plan))
    for note in plan.notes:
        console.print(f"note: {note}", soft_wrap=True)


def _table(*heads: str) -> Table:
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    for head in heads:
        is_amount = head in AMOUNTS
        table.add_column(head, justify="right" if is_amount else "left", overflow="fold")
    return table


def _layers(plan: PartitionPlan) -> Table:
    table = _table("layer", "cut by", "who computes what")
    for one in placements(plan):
        table.add_row(Text(one.layer), one.sharding.kind, _who(plan, one.sharding))
    return table


def _who(plan: PartitionPlan, sharding: Sharding) -> str:
    if sharding.kind == "worker":
        return f"worker {sharding.worker}: all"
    if sharding.kind == "feature":
        parts = (f"{worker}: {channels_text(ranges)}" for worker, ranges in enumerate(sharding.channels))
        return "features of worker " + "; ".join(parts)
    if sharding.kind == "image":
        return "; ".join(f"worker {w}: {places_text(places)}" for w, places in enumerate(sharding.places))
    return f"each of {plan.num_workers} workers: its samples"


def _edges(plan: PartitionPlan) -> Table:
    table = _table("edge", "connection", "from", "to", "numbers", "bytes")
    for edge in plan.edges.values():
        numbers, num_bytes = f"{edge.elements:,}", bytes_text(edge.elements * FLOAT_BYTES)
        table.add_row(Text(edge.value), edge.op_type, str(edge.before), str(edge.after), numbers, num_bytes)
    total = sum(edge.elements for edge in plan.edges.values())
    head = f"forward, for a batch of {plan.num_rows}"
    table.add_row(head, "", "", "", f"{total:,}", bytes_text(total * FLOAT_BYTES))
    return table


def _workers(plan: PartitionPlan) -> Table:
    table = _table("worker", "parameters", "bytes")
    for worker in range(plan.num_workers):
        held = plan.elements_of(worker)
        table.add_row(str(worker), f"{held:,}", bytes_text(held * FLOAT_BYTES))
    shared = sum(
        parameter.size
        for key, parameter in plan.graph.parameters.items()
        if key not in plan.holdings or plan.holdings[key].is_shared
    )
    table.add_row("on all of them, exchanged", f"{shared:,}", bytes_text(shared * FLOAT_BYTES))
    return table


def show_plan(console: Console, plan: RunPlan) -> None:
    """Print the schemes of a run, the fastest that fits first, and how to run the first.

    Args:
        console: Where to.
        plan: The plan.
    """
    network, device = plan.network, plan.device or "a processor of this machine, measured"
    console.print(
        f"{plan.job}: {network.machines} x {network.each} devices ({device}), batches of {plan.batch}",
        soft_wrap=True,
    )
    table = _table("scheme", "update", "computes", "samples/s", "efficiency", "memory", "sends", "")
    for one in (plan.alone, *plan.schemes):
        table.add_row(
            one.scheme.name,
            f"{one.step_s * 1e3:,.1f} ms",
            f"{one.compute_s / one.step_s:.0%}",
            f"{one.samples_per_s:,.0f}",
            f"{one.efficiency:.0%}",
            bytes_text(one.memory),
            bytes_text(one.sent),
            "" if one.fits is not False else "does not fit",
        )
    console.print(table)
    for one in plan.schemes:
        for stage, (seconds, memory, sent) in enumerate(one.stages):
            console.print(
                f"{one.scheme.name}, stage {stage}: computes {seconds * 1e3:,.1f} ms, {bytes_text(memory)}, "
                f"sends {bytes_text(sent)}",
                soft_wrap=True,
            )
    for note in plan.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if plan.schemes:
        console.print(_how_to_run(plan.schemes[0], plan.batch), soft_wrap=True, markup=False)


def _how_to_run(best: PlannedScheme, batch: int) -> str:
    """Return the options of ``netweave train`` for a scheme, whose updates use so many samples."""
    if best.scheme.micro_batches is not None:
        return (
            f"{best.scheme.name}: netweave train SOLVER --devices ... --micro-batches "
            f"{best.scheme.micro_batches}, with a batch_size of {batch} in the net"
        )
    if best.scheme.layers:
        rows = "".join(
            f'\n  layer {{ name: "{one.name}" partition_dim: {one.partition_dim} }}'
            for one in best.scheme.layers
        )
        return (
            f"{best.scheme.name}: netweave train SOLVER --devices ... --cluster FILE, with these lines:{rows}"
        )
    return f"{best.scheme.name}: netweave train SOLVER --devices ... --exchange {best.scheme.exchange}"


def plan_json(plan: RunPlan) -> dict[str, Any]:
    """Return a plan as JSON values; times in seconds, memory and what is sent in bytes."""
    return asdict(plan)

"""The plans of a net's memory, on a terminal and as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from netweave.cli.console import LINE_BELOW_HEAD
from netweave.graph.wording import amount_text, bytes_text

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.runtime.memory_plan import MeasuredMemory, MemoryReport


def show_memory(console: Console, found: MemoryReport, measured: MeasuredMemory | None) -> None:
    """Print a table of the plans, and below it what no plan changes."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    table.add_column("plan", no_wrap=True)
    for name in ("memory", "of none", "extra multiply-adds"):
        table.add_column(name, justify="right", no_wrap=True)
    none = found.plans[0].num_bytes
    for plan in found.plans:
        extra = ""
        if plan.extra_multiply_adds:
            share = plan.extra_multiply_adds / max(found.multiply_adds, 1)
            extra = f"{amount_text(plan.extra_multiply_adds)} ({share:.1%})"
        of_none = f"{plan.num_bytes / none:.1%}" if none else ""
        table.add_row(plan.name, bytes_text(plan.num_bytes), of_none, extra)
    console.print(table)
    fixed = [f"{bytes_text(found.parameters)} of parameters", f"{bytes_text(found.inputs)} of inputs"]
    if found.training:
        fixed.insert(1, f"{bytes_text(found.parameter_gradients)} of their gradients")
    console.print(f"besides: {', '.join(fixed)}; batch {found.batch}", soft_wrap=True)
    if measured is not None:
        gradients = ", gradients of parameters among it" if found.training else ""
        threads = ""
        if measured.num_threads > 1:
            with_threads = bytes_text(measured.peak_with_threads)
            threads = f" with 1 thread, {with_threads} with {measured.num_threads}"
        console.print(
            f"at once at most: planned {bytes_text(found.step_peak)}, "
            f"measured {bytes_text(measured.peak)}{threads}{gradients}",
            soft_wrap=True,
        )


def memory_json(found: MemoryReport, measured: MeasuredMemory | None) -> dict[str, Any]:
    """Return the plans as JSON values, in bytes."""
    return {
        "batch": found.batch,
        "training": found.training,
        "parameters": found.parameters,
        "parameter_gradients": found.parameter_gradients,
        "inputs": found.inputs,
        "multiply_adds": found.multiply_adds,
        "plans": [
            {
                "name": plan.name,
                "bytes": plan.num_bytes,
                "extra_multiply_adds": plan.extra_multiply_adds,
            }
            for plan in found.plans
        ],
        "step_peak": found.step_peak,
        "measured": None if measured is None else measured.peak,
        "threads": None if measured is None else measured.num_threads,
        "measured_with_threads": None if measured is None else measured.peak_with_threads,
    }

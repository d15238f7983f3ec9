"""Memory that a net needs, planned and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.api.arguments import draw_inputs
from netweave.api.reading import to_inference
from netweave.api.runs import need_torch
from netweave.api.timing import label_inputs, load_for_timing
from netweave.errors import UsageError
from netweave.files.output_files import replacing_file
from netweave.graph import Graph
from netweave.graph.summary import bytes_text
from netweave.installation import install_command
from netweave.runtime.memory_plan import (
    MeasuredMemory,
    MemoryPlan,
    MemoryReport,
    parse_bytes,
    prepare,
    report,
    tile_to_fit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BANDS = {"value": "#4477aa", "gradient": "#ee6677", "kept": "#ccbb44", "workspace": "#bbbbbb"}
"""Colours of what memory is for, colour-blind safe (Tol, "bright")."""


def plan_memory(
    net: Graph | str | Path,
    *,
    batch: int | None = None,
    training: bool = False,
    limit: str | int | None = None,
) -> MemoryReport:
    """Return what a net needs by each plan: without sharing, in place, co-shared, computed again.

    Args:
        net: A net, or files as for ``load``; its sizes must be known but for the batch.
        batch: Records in a batch, >= 1; None for those of the net, 1 if it takes any number.
        training: Whether gradients are computed; without, the net is taken as it predicts.
        limit: What a step is to stay within by the last plan, for all but parameters and inputs; half of what
            it takes if nothing is said. Of a run forward: what its layers are tiled for.

    Raises:
        SourceError: The files cannot be read.
        UsageError: The limit is no size, a run forward cannot be tiled to fit, or the net takes batches of
            another size only.
    """
    wanted = None if limit is None else parse_bytes(limit)
    graph = _graph(net, training)
    return report(graph, batch=_batch_of(graph, batch), training=training, limit=wanted)


def measure_memory(
    net: Graph | str | Path,
    *,
    batch: int | None = None,
    training: bool = False,
    limit: str | int | None = None,
) -> MeasuredMemory:
    """Run a net on torch and return the most bytes that its allocator had given out at once.

    Parameters and inputs are not counted, gradients of parameters are: the figure with one thread stands
    beside ``MemoryReport.step_peak``; the figure with all threads is what torch takes on this machine.

    Args:
        net: As for ``plan_memory``.
        batch: Records in a batch, >= 1; None for those of the net, 1 if it takes any number.
        training: Whether gradients are computed.
        limit: Stay within this: compute values again in a step, tile layers in a run forward.

    Raises:
        SourceError: The files cannot be read.
        UsageError: Torch is not installed, a size is not known, or the net takes batches of another size
            only.
        RunError: A layer cannot be computed.
    """
    need_torch()
    from netweave.runtime.backends.torch.memory import measure_step

    graph = _graph(net, training)
    batch = _batch_of(graph, batch)
    if limit is not None and not training:
        graph, limit = tiled(graph, limit, batch=batch), None
    labels = label_inputs(graph)
    arrays = {
        name: array * 0 if name in labels else array
        for name, array in draw_inputs(graph, 0, batch=batch).items()
    }
    plan = prepare(graph, batch=batch, training=training)
    return measure_step(graph, arrays, plan, limit=None if limit is None else parse_bytes(limit))


def tiled(net: Graph | str | Path, memory: str | int, *, batch: int | None = None) -> Graph:
    """Return a net that predicts the same with less memory: its large layers over bands of the image.

    Args:
        net: As for ``plan_memory``; it is taken as it predicts.
        memory: What values and kernels may take at once, besides parameters and inputs: bytes or a size.
        batch: Records in a batch, >= 1; None for those of the net, 1 if it takes any number.

    Raises:
        SourceError: The files cannot be read.
        UsageError: No tiling fits, or the net takes batches of another size only.
    """
    graph = _graph(net, training=False)
    return tile_to_fit(graph, parse_bytes(memory), batch=_batch_of(graph, batch))


def save_memory_picture(found: MemoryReport, path: str | Path) -> None:
    """Draw the bytes alive at each step of a run, by what they are for, one picture for each plan.

    Args:
        found: What ``plan_memory`` returned.
        path: The picture; the end of its name says of which kind it is (``.png``, ``.svg``, ``.pdf``).

    Raises:
        UsageError: Matplotlib is not installed, or the kind is unknown.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(f"pictures need matplotlib: {install_command('curves')}") from error
    file = Path(path)
    drawn = [plan for plan in found.plans if plan.timeline is not None]
    figure = Figure(figsize=(9, 2.6 * len(drawn) + 0.6), layout="constrained")
    kinds = FigureCanvasAgg(figure).get_supported_filetypes()
    if file.suffix.removeprefix(".") not in kinds:
        known = ", ".join(sorted(f".{kind}" for kind in kinds))
        raise UsageError(f"{file}: pictures are drawn as {known}")
    top = max(max(plan.timeline.live_bytes()) for plan in drawn if plan.timeline)
    for number, plan in enumerate(drawn):
        axes = figure.add_subplot(len(drawn), 1, number + 1)
        axes.set_ylim(0, 1.05 * top / 1e6)
        _draw(axes, plan)
        if number == 0:
            axes.legend(loc="upper left", fontsize=8)
    label = "step: forward, then (behind the dotted line) backward" if found.training else "step"
    figure.supxlabel(label, fontsize=10)
    with replacing_file(file) as new:
        figure.savefig(new)


def _draw(axes: Axes, plan: MemoryPlan) -> None:
    """Draw what is alive at each step of one plan."""
    assert plan.timeline is not None
    rest = plan.timeline.without("parameter gradient")
    parts = [[num_bytes / 1e6 for num_bytes in rest.only(kind).live_bytes()] for kind in BANDS]
    axes.stackplot(range(len(rest.steps)), parts, labels=BANDS, colors=BANDS.values(), step="mid")
    backward = next((i for i, (_, what) in enumerate(rest.steps) if what != "forward"), None)
    if backward is not None:
        axes.axvline(backward - 0.5, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, len(rest.steps) - 1)
    axes.set_ylabel("MB alive")
    name = "as it runs" if plan.name == "liveness bound" else plan.name
    axes.set_title(f"{name}: {bytes_text(plan.num_bytes)}", fontsize=10, loc="left")
    axes.grid(alpha=0.3)


def _graph(net: Graph | str | Path, training: bool) -> Graph:
    graph = net if isinstance(net, Graph) else load_for_timing(net, "TRAIN" if training else "TEST")
    return graph if training else to_inference(graph)


def _batch_of(graph: Graph, wanted: int | None) -> int:
    """Return the records of a batch.

    Raises:
        UsageError: The net takes another number only.
    """
    sizes = {value.name or "": value.shape[0] for value in graph.inputs if value.shape}
    fixed = {name: size for name, size in sizes.items() if isinstance(size, int)}
    if not fixed or len(fixed) < len(sizes):
        return wanted or 1
    name, own = next(iter(fixed.items()))
    if wanted not in {None, own}:
        raise UsageError(
            f"{graph.name}: batches of {wanted} are asked for, input {name!r} takes {own} records; leave "
            f"the batch out, or give other sizes of the input (--input-shape {name}={wanted}x..., "
            "load(..., input_shapes=...))"
        )
    return own

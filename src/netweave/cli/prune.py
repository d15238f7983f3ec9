"""``netweave prune``: a detector with fewer channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netweave.cli.options import Command, json_option, parse_paths

if TYPE_CHECKING:
    from netweave.api.weights import PruneResult


@click.command(
    cls=Command,
    examples=[
        "netweave prune yolo.cfg backup/yolo_1200.weights pruned.cfg --data shapes.data",
        "netweave prune yolo.cfg yolo.weights pruned.cfg --keep 0.3 --least 0.05",
    ],
)
@click.argument("net", metavar="NET")
@click.argument("weights", metavar="WEIGHTS")
@click.argument("out", metavar="OUT")
@click.option(
    "--keep",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    default=0.5,
    show_default=True,
    help="Largest share of the multiply-adds to keep.",
)
@click.option(
    "--least",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    default=0.1,
    show_default=True,
    help="Smallest share of the channels of each layer to keep.",
)
@click.option(
    "--data",
    metavar="[PHASE=]PATH",
    multiple=True,
    callback=parse_paths,
    help="Test both nets on these images: a .data file, a folder like Pascal VOC's, or test=LIST.",
)
@json_option
def prune(
    net: str, weights: str, out: str, keep: float, least: float, data: dict[str, str], json_file: str | None
) -> None:
    """Remove channels of NET, a Darknet .cfg with WEIGHTS, and write OUT (.cfg) and its .weights.

    The channels with the smallest scales of batch normalisation go, by one threshold for the whole net. Train
    with --scale-l1 before, and train OUT from its weights afterwards.
    """
    from netweave import api
    from netweave.cli.batches import counting
    from netweave.cli.console import output_console, write_json

    with counting("testing") as told:
        result = api.prune(net, weights, out, keep=keep, least=least, data=data, told=told)
    if json_file:
        write_json(result.to_json(), json_file)
    if json_file != "-":
        console = output_console()
        console.print(_table(result))
        console.print(f"wrote {result.net} and {result.weights}", soft_wrap=True)


def _table(result: PruneResult) -> object:
    from rich.box import SIMPLE
    from rich.table import Table

    channels = [sum(counts) for counts in zip(*result.filters.values(), strict=True)]
    title = f"channels with a scale above {result.threshold:.3g}: {channels[1]:,} of {channels[0]:,}"
    table = Table(box=SIMPLE, title=title, title_justify="left", title_style="", pad_edge=False)
    table.add_column("")
    for name in ("before", "after", "share"):
        table.add_column(name, justify="right")
    for name in ("parameters", "multiply_adds"):
        before, after = getattr(result.before, name), getattr(result.after, name)
        table.add_row(name.replace("_", "-"), f"{before:,}", f"{after:,}", f"{after / before:.1%}")
    for name, value in result.before.metrics.items():
        table.add_row(name, f"{value:.4g}", f"{result.after.metrics[name]:.4g}", "")
    return table

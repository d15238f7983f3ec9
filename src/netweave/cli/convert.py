"""``netweave convert``: a net as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from netweave.cli.options import NET, Command, reads_nets

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph


@click.command(cls=Command, examples=["netweave convert det1-symbol.json,det1-0001.params det1.onnx"])
@NET("net")
@click.argument("out", metavar="OUT.onnx")
@click.option(
    "--inference",
    is_flag=True,
    help="Write the net as it predicts: without dropout, losses and labels, BatchNorm folded in.",
)
@click.option("--random-weights", is_flag=True, help="Write drawn weights where none were found.")
@reads_nets
def convert(net: str, out: str, inference: bool, random_weights: bool, load: Callable[[str], Graph]) -> None:
    """Write NET as an ONNX file, with its layers kept as metadata.

    NET is FILE or FILE,WEIGHTS.
    """
    from netweave import api
    from netweave.cli.console import output_console, working
    from netweave.cli.net_view import converted

    graph = load(net)
    if inference:
        graph = api.predicting(graph, folded=True)
    with working(f"writing {out}"):
        api.save(graph, out, random_weights=random_weights)
    output_console().print(converted(graph, Path(out)))

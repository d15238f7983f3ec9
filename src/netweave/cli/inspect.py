"""``netweave inspect``: a net as a table."""

from __future__ import annotations

import functools
from typing import Any

import click

from netweave.cli.options import NET, Command, html_option, json_option, reads_nets


@click.command(cls=Command, examples=["netweave inspect deploy.prototxt --input-shape data=1x3x227x227"])
@NET("net")
@click.option("--nodes", is_flag=True, help="Show the ONNX operators of the layers.")
@click.option(
    "--inference", is_flag=True, help="Show the net in inference form, without losses, metrics and labels."
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Batch size for which multiply-adds are counted.",
)
@json_option
@html_option
@functools.partial(reads_nets, several=True)
def inspect(
    net: str,
    nodes: bool,
    inference: bool,
    batch: int,
    json_file: str | None,
    html_file: str | None,
    reading: dict[str, Any],
) -> None:
    """Show the layers of NET: settings, shapes, parameters and multiply-adds.

    NET is FILE or FILE,WEIGHTS. Sizes that the file leaves to its data are shown as letters.
    """
    from netweave import api
    from netweave.cli.console import output_console, working

    with working(f"reading {net}"):
        graph = api.load_for_inspection(net, inference=inference, **reading)
    if html_file:
        api.save_page(graph, html_file)
    if json_file:
        from netweave.cli.console import write_json
        from netweave.graph import graph_to_json

        write_json(graph_to_json(graph, batch=batch), json_file)
    if json_file != "-":
        from netweave.cli.net_view import show_net

        show_net(output_console(), graph, nodes=nodes, batch=batch)

"""``netweave inspect``: a net as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netweave.cli.options import NET, Command, html_option, json_option, reads_nets

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph


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
@reads_nets
def inspect(
    net: str,
    nodes: bool,
    inference: bool,
    batch: int,
    json_file: str | None,
    html_file: str | None,
    load: Callable[[str], Graph],
) -> None:
    """Show the layers of NET: settings, shapes, parameters and multiply-adds.

    NET is FILE or FILE,WEIGHTS.
    """
    graph = load(net)
    if inference:
        from netweave import api

        graph = api.to_inference(graph)
    if html_file:
        from netweave import api

        api.save_page(graph, html_file)
    if json_file:
        from netweave.cli.console import write_json
        from netweave.graph import graph_to_json

        write_json(graph_to_json(graph, batch=batch), json_file)
    if json_file != "-":
        from netweave.cli.console import output_console
        from netweave.cli.net_view import show_net

        show_net(output_console(), graph, nodes=nodes, batch=batch)

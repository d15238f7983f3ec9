"""``netweave zoo``: the classic nets, their cost and published accuracy."""

from __future__ import annotations

import click

from netweave.cli.options import Command, json_option


@click.command(
    cls=Command,
    examples=["netweave zoo", "netweave zoo resnet50 mobilenet-v2 --json -", "netweave zoo --plot zoo.svg"],
)
@click.argument("names", metavar="[NET]...", nargs=-1)
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    help="Also plot accuracy against multiply-adds to FILE (.png, .svg, .pdf).",
)
@json_option
def zoo(names: tuple[str, ...], picture: str | None, json_file: str | None) -> None:
    """List classic nets with their parameters, multiply-adds, activation memory, depth, accuracy and year.

    Costs are computed from the graphs, for one image. Accuracies are the published values on the ImageNet
    validation set with one crop; the table and the JSON give the source of each.
    """
    from dataclasses import asdict

    from netweave import api
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.net_view import show_zoo

    with working("building the nets"):
        nets = api.zoo_costs(names)
    if picture:
        api.save_zoo_picture(nets, picture)
    if json_file:
        write_json({"nets": [asdict(net) for net in nets]}, json_file)
    if json_file != "-":
        show_zoo(output_console(), nets)

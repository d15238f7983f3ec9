"""``netweave zoo``: the classic nets, what each costs and what was reached with it."""

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
    help="Draw accuracy against multiply-adds into FILE (.png, .svg, .pdf) as well.",
)
@json_option
def zoo(names: tuple[str, ...], picture: str | None, json_file: str | None) -> None:
    """Compare classic nets: parameters, multiply-adds, memory of activations, depth, accuracy, year.

    Costs are computed from the nets' graphs, for one image. Accuracies are the published ones on ImageNet's
    validation images, one crop of each; where each is from is in the table, and in the JSON.
    """
    from dataclasses import asdict

    from netweave import api
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.zoo_view import show_zoo

    with working("building the nets"):
        nets = api.zoo_costs(names)
    if picture:
        api.save_zoo_picture(nets, picture)
    if json_file:
        write_json({"nets": [asdict(net) for net in nets]}, json_file)
    if json_file != "-":
        show_zoo(output_console(), nets)

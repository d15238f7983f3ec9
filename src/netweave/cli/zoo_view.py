"""The classic nets as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from netweave.api.zoo import ZooNet

NUMBERS = ("year", "image", "depth", "parameters", "multiply-adds", "activations", "top-1")


def show_zoo(console: Console, nets: Sequence[ZooNet]) -> None:
    """Print a table of nets, and below it where the accuracies are from."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    table.add_column("net", no_wrap=True)
    for name in NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    for net in nets:
        table.add_row(
            Text(net.title),
            str(net.year),
            "x".join(map(str, net.image)),
            str(net.depth),
            f"{net.parameters / 1e6:.2f} M",
            f"{net.multiply_adds / 1e6:,.0f} M",
            f"{net.activation_bytes / 1e6:.1f} MB",
            "" if net.top1 is None else f"{net.top1:.1f} %",
        )
    console.print(table)
    for net in nets:
        console.print(Text(f"{net.title}: {net.source}", style="dim"), soft_wrap=True)

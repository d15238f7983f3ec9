"""The table of a cluster: processes, their roles, and what servers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.training.cluster.topology import Role, Topology


def show_cluster(console: Console, topology: Topology) -> None:
    """Print who holds what.

    Args:
        console: Where to.
        topology: The roles and holders.
    """
    table = Table(box=SIMPLE, pad_edge=False)
    for head in ("process", "role"):
        table.add_column(head)
    for head in ("slices", "bytes"):
        table.add_column(head, justify="right")
    table.add_column("parameters", overflow="fold")
    for role in topology.roles:
        table.add_row(str(role.rank), str(role), *_held(topology, role))
    console.print(table)
    for text in topology.cluster.without_effect():
        console.print(f"note: {text}", soft_wrap=True)
    console.print(
        f"placement {topology.cluster.placement}: the largest server holds {topology.imbalance:.2f} times "
        "the mean",
        soft_wrap=True,
    )


def _held(topology: Topology, role: Role) -> tuple[str, str, str]:
    """Return slices, bytes and parameters of a server; of those that it holds in part, how much."""
    if role.server is None:
        return "", "", ""
    layout = topology.placement.layout
    slices = topology.slices_of(role.server)
    held: dict[str, int] = {}
    for number in slices:
        for span in layout.slices[number]:
            held[span.key] = held.get(span.key, 0) + span.stop - span.start
    sizes: dict[str, int] = {}
    for spans in layout.slices:
        for span in spans:
            sizes[span.key] = max(sizes.get(span.key, 0), span.stop)
    names = [key if size == sizes[key] else f"{key} ({size / sizes[key]:.0%})" for key, size in held.items()]
    return str(len(slices)), f"{topology.bytes_of(role.server):,}", ", ".join(names)

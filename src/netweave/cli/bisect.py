"""``netweave bisect``: the first layer at which two nets diverge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netweave.cli.options import NET, Command, reads_nets

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph


@click.command(
    cls=Command,
    examples=["netweave bisect a.prototxt b.onnx", "netweave bisect a.prototxt b.onnx --probe photo.npz"],
)
@NET("a", metavar="A")
@NET("b", metavar="B")
@click.option(
    "--probe",
    "probe_file",
    metavar="FILE",
    help="Inputs of A to run on: .npz by name, or .npy for a single input.",
)
@reads_nets
def bisect(a: str, b: str, probe_file: str | None, load: Callable[[str], Graph]) -> int:
    """Binary-search for the first layer at which nets A and B diverge on one input.

    Use it for nets too large for 'netweave compare', which keeps every tensor of both nets in memory: bisect
    runs both nets several times and keeps one tensor at a time.

    Exit status: 0 the nets do not diverge; 1 they diverge; 2 a file could not be read.
    """
    from netweave import api
    from netweave.cli.console import output_console, working

    net_a, net_b = load(a), load(b)
    probe = api.load_arrays(probe_file, [str(v.name) for v in net_a.inputs]) if probe_file else None
    with working("searching") as status:
        found = api.bisect(net_a, net_b, probe=probe, progress=status.update)
    output_console().print(found.sentence, highlight=False)
    return 1 if found.layer_a else 0

"""``netweave bisect``: the first layer at which two nets diverge."""

from __future__ import annotations

import functools
from typing import Any

import click

from netweave.cli.options import NET, Command, reads_nets


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
@functools.partial(reads_nets, several=True)
def bisect(a: str, b: str, probe_file: str | None, reading: dict[str, Any]) -> int:
    """Binary-search for the first layer at which nets A and B diverge on one input.

    Use it for nets too large for 'netweave compare', which keeps every tensor of both nets in memory: bisect
    runs both nets several times and keeps one tensor at a time.

    Exit status: 0 the nets do not diverge; 1 they diverge; 2 a file could not be read.
    """
    from netweave import api
    from netweave.cli.console import output_console, working

    with working("searching") as status:
        divergence = api.bisect(a, b, probe=probe_file, progress=status.update, **reading)
    output_console().print(divergence.sentence, highlight=False)
    return 1 if divergence.layer_a else 0

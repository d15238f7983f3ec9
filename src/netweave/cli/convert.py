"""``netweave convert``: a net in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netweave.cli.options import NET, Command, engine_options, parse_input_shapes, reads_nets

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.cli.options import InputShapes
    from netweave.graph import Graph


@click.command(
    cls=Command,
    examples=[
        "netweave convert det1-symbol.json,det1-0001.params det1.onnx",
        "netweave convert resnet50.prototxt,resnet50.caffemodel resnet50.py",
        "netweave convert resnet50.prototxt,resnet50.caffemodel resnet50.py --to keras",
        "netweave convert resnet50.keras resnet50.prototxt",
        "netweave convert resnet50.keras resnet50-symbol.json",
        "netweave convert deploy.prototxt,net_iter_600.checkpoint net.caffemodel",
        "netweave convert deploy.prototxt,net.caffemodel port-0001.params --into port-symbol.json "
        "--into-shape data=1x1x28x28",
    ],
)
@NET("net")
@click.argument("out", metavar="OUT")
@click.option(
    "--to",
    type=click.Choice(["pytorch", "keras"]),
    metavar="pytorch|keras",
    help="Framework of the source code (.py); PyTorch by default.",
)
@click.option(
    "--into",
    "port",
    metavar="PORT",
    help="Write the weights of NET in the form that PORT needs: a .caffemodel if PORT is a Caffe net, "
    ".params if it is an MXNet net.",
)
@click.option(
    "--into-shape",
    "into_shapes",
    metavar="NAME=SIZES",
    multiple=True,
    callback=parse_input_shapes,
    help="Sizes of an input of PORT, if its file does not give them; may be repeated.",
)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["inference"]),
    metavar="inference",
    help="Optimise the net for inference: drop dropout, losses and labels, fold BatchNorm and remove "
    "concatenations; report the gain, as --backend, --precision and --threads run it.",
)
@engine_options(chooses=True)
@click.option("--random-weights", is_flag=True, help="Write random weights where the net has none.")
@reads_nets
def convert(
    net: str,
    out: str,
    to: str | None,
    port: str | None,
    into_shapes: InputShapes,
    purpose: str | None,
    engine: dict[str, Any],
    random_weights: bool,
    load: Callable[[str], Graph],
) -> int:
    """Convert NET to the format given by the name of OUT: .onnx, .prototxt, -symbol.json or .py (PyTorch).

    NET is FILE or FILE,WEIGHTS; a Netweave .checkpoint also works as weights. Formats other than .onnx store
    the weights in a file beside OUT. The command reads the result back and compares it with NET, even with
    random weights, before it reports success.

    If OUT is a .caffemodel or .caffemodel.h5 (NET or PORT is a Caffe net) or a .params (an MXNet net), only
    the weights are written.

    Exit status: 0 written and equal; 1 the result differs; 2 NET could not be read or written; 3
    not decidable.
    """
    from rich.text import Text

    from netweave import api
    from netweave.cli.compare_view import show_comparison, verdict_style
    from netweave.cli.console import output_console, working
    from netweave.cli.net_view import converted, gained, weights_written

    graph = whole = load(net)
    if purpose == "inference":
        graph = api.to_inference(graph, folded=True)
    if port:
        with working(f"carrying weights over to {port}"):
            graph = api.transfer_weights(graph, api.load(port, input_shapes=into_shapes))
    if port or api.writes_weights(out):
        api.save_weights(graph, out, random_weights=random_weights)
        output_console().print(weights_written(graph, Path(out)))
        return 0
    with working(f"writing {out}") as status:
        found = api.convert_and_verify(
            graph,
            out,
            to=to,
            random_weights=random_weights,
            against=whole,
            progress=lambda stage: status.update(f"comparing {out} with {net}: {stage}"),
        )
    console = output_console()
    console.print(converted(graph, Path(out)))
    if purpose == "inference":
        with working("measuring what that gained"):
            gain = api.gain_of(whole, graph, **engine)
        console.print(gained(gain))
    if found.exit_status == 0:
        reason = found.sentence.removeprefix("identical: ")  # it says so itself
        text = f"read back and compared with the original: {reason}"
        console.print(Text(text, style=verdict_style(found.verdict)))
    else:
        console.print(Text(f"{out} is not done: it differs from {net}", style="bold red"))
        show_comparison(console, found, everything=False)
    return found.exit_status

"""``netweave run``: run a net on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from netweave.cli.options import NET, Command, engine_options, json_option, reads_nets
from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from netweave.graph import Graph


@click.command(
    cls=Command,
    examples=[
        "netweave run det1.prototxt --input photo.npz --output found.npz --tap conv3",
        "netweave run det1.prototxt --random 1 --backend torch --precision bf16",
        "netweave run vgg16.onnx --input photo.npz --backend torch --memory 16MB",
    ],
)
@NET("net")
@click.option(
    "--input", "input_file", metavar="FILE", help="Inputs: .npz by name, or .npy for a single input."
)
@click.option("--random", "seed", type=int, metavar="SEED", help="Draw random inputs with this seed instead.")
@click.option("--output", "output_file", metavar="FILE", help="Write outputs and taps to this .npz or .npy.")
@click.option(
    "--as-written",
    is_flag=True,
    help="Run the net as the file has it, with losses, metrics and labels; by default it runs in inference "
    "form.",
)
@click.option(
    "--tap",
    "taps",
    metavar="NAME",
    multiple=True,
    help="Also return this intermediate value; may be repeated.",
)
@engine_options(chooses=False)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Limit for values and kernels (16MB), besides parameters and inputs: compute large layers over "
    "bands of the image, as planned for torch.",
)
@json_option
@reads_nets
def run(
    net: str,
    input_file: str | None,
    seed: int | None,
    output_file: str | None,
    as_written: bool,
    taps: tuple[str, ...],
    engine: dict[str, Any],
    memory: str | None,
    json_file: str | None,
    load: Callable[[str], Graph],
) -> None:
    """Run NET once and show its outputs.

    NET is FILE or FILE,WEIGHTS.
    """
    if (input_file is None) == (seed is None):
        raise UsageError("give the inputs with --input FILE, or draw random ones with --random SEED")
    from netweave import api
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.run_view import results_json, show_results

    graph = load(net) if as_written else api.to_inference(load(net))
    given = _inputs(graph, input_file, seed)
    with working(f"running {graph.name}"):
        results = api.run(graph, given, taps=taps, memory=memory, **engine)
    if output_file:
        api.save_arrays(output_file, results)
    if json_file:
        write_json(results_json(graph, given, results), json_file)
    if json_file != "-":
        show_results(output_console(), graph, given, results, taps=taps, output_file=output_file)


def _inputs(graph: Graph, input_file: str | None, seed: int | None) -> dict[str, np.ndarray]:
    from netweave import api

    if input_file is not None:
        return api.load_arrays(input_file, [value.name or "" for value in graph.inputs])
    assert seed is not None
    return api.draw_inputs(graph, seed)

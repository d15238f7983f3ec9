"""Commands that run nets: run, time and extract."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from netweave.cli.caffe import (
    CaffeCommand,
    allow_url_option,
    device_of,
    files_of,
    gpu_option,
    in_state,
    one_of,
    threads_option,
)
from netweave.cli.options import NET, Command, engine_options, json_option, reads_nets
from netweave.errors import UsageError

if TYPE_CHECKING:
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


@click.command(
    cls=CaffeCommand,
    examples=[
        "netweave time train_test.prototxt",
        "netweave time --model deploy.prototxt --iterations 50 --gpu 0",
        "netweave time net.onnx --forward --input-shape data=8x3x224x224",
        "netweave time net.onnx --for inference --precision bf16 --input-shape data=8x3x224x224",
    ],
)
@click.argument("net", metavar="NET", required=False)
@click.option("--model", metavar="NET", help="The net, as in the caffe command.")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    metavar="N",
    default=10,
    show_default=True,
    help="Number of passes to average over, after one warm-up pass.",
)
@click.option("--forward", "forward_only", is_flag=True, help="Measure only the forward pass, in test mode.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["inference"]),
    metavar="inference",
    help="Measure the whole net as it is prepared to run many times, on each backend, with --backend, "
    "--precision and --threads, instead of its layers.",
)
@engine_options(chooses=True)
@click.option(
    "--phase",
    type=click.Choice(["TEST", "TRAIN"]),
    help="Phase to read; by default TRAIN, or TEST with --forward.",
)
@click.option("--trust", is_flag=True, help="Run Python code in the files without the sandbox.")
@gpu_option
@json_option
@in_state
def time(
    net: str | None,
    model: str | None,
    iterations: int,
    forward_only: bool,
    purpose: str | None,
    engine: dict[str, Any],
    phase: str | None,
    trust: bool,
    gpu: str | None,
    json_file: str | None,
    state: dict[str, Any],
) -> None:
    """Measure the forward and backward time of each layer of NET on random inputs.

    NET is a net in any format, with or without weights, or a solver.prototxt. Layers run one at a time.
    Data loading is not measured. With --for inference, measure the whole net as netweave.prepare runs it.
    """
    file = one_of(net, model, what="net: netweave time NET")
    from netweave import api
    from netweave.cli.console import counting, output_console, working, write_json
    from netweave.cli.run_view import inference_json, show_inference, show_times, times_json

    with working(f"reading {file}"):
        graph = api.load_for_timing(
            file,
            phase or ("TEST" if forward_only or purpose else "TRAIN"),
            trust=trust,
            **state,
        )
    if purpose == "inference":
        if gpu is not None:
            raise UsageError("--for inference measures on the CPU; leave out --gpu")
        with working("trying the backends"):
            whole = api.time_inference(graph, iterations=iterations, **engine)
        if json_file:
            write_json(inference_json(whole), json_file)
        if json_file != "-":
            show_inference(output_console(), whole)
        return
    with counting("measuring") as told:
        times = api.time_layers(
            graph, iterations=iterations, backward=not forward_only, device=device_of(gpu), told=told
        )
    if json_file:
        write_json(times_json(times), json_file)
    if json_file != "-":
        show_times(output_console(), times, backward=not forward_only)


@click.command(
    cls=Command,
    examples=[
        "netweave extract train_test.prototxt net.caffemodel ip1 features.npz",
        "netweave extract train_test.prototxt net.caffemodel ip1,label features.h5 --iterations 10",
    ],
)
@click.argument("net", metavar="NET")
@click.argument("weights", metavar="WEIGHTS")
@click.argument("layers", metavar="LAYERS")
@click.argument("out", metavar="OUT")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    metavar="N",
    help="Number of batches; by default every record once.",
)
@click.option(
    "--phase",
    type=click.Choice(["TEST", "TRAIN"]),
    default="TEST",
    show_default=True,
    help="Phase whose data is read.",
)
@gpu_option
@threads_option
@allow_url_option
@in_state
def extract(
    net: str,
    weights: str,
    layers: str,
    out: str,
    iterations: int | None,
    phase: str,
    gpu: str | None,
    threads: int | None,
    allow_urls: tuple[str, ...],
    state: dict[str, Any],
) -> None:
    """Write the activations of LAYERS in NET, for each record of its data, to OUT.

    LAYERS is a comma-separated list of blobs or layers; it can include the labels. OUT is an .npz or .h5, or
    an .npy, .txt or .csv for a single layer. WEIGHTS is a .caffemodel or a .checkpoint.
    """
    from netweave import api
    from netweave.cli.console import counting, output_console, working

    with working(f"reading {net}"):
        phases = api.load_phases(net, phase, allow_urls=allow_urls, **state)
    with counting("extracting") as told:
        arrays = api.extract(
            phases,
            files_of(weights),
            layers.split(","),
            num_batches=iterations,
            device=device_of(gpu),
            threads=threads,
            told=told,
        )
    api.save_arrays(out, arrays)
    sizes = ", ".join(f"{name} {'x'.join(map(str, array.shape))}" for name, array in arrays.items())
    output_console().print(f"{out}: {sizes}", soft_wrap=True)

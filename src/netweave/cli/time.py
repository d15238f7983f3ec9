"""``netweave time``: how long each layer takes, or the whole net as it is prepared for inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from netweave.cli.caffe import CaffeCommand, device_of, gpu_option, in_state, one_of
from netweave.cli.options import engine_options, json_option
from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.cli.options import InputShapes


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
    stages: tuple[str, ...],
    level: int,
    input_shapes: InputShapes,
) -> None:
    """Measure the forward and backward time of each layer of NET on random inputs.

    NET is a net in any format, with or without weights, or a solver.prototxt. Layers run one at a time.
    Data loading is not measured. With --for inference, measure the whole net as netweave.prepare runs it.
    """
    file = one_of(net, model, what="net: netweave time NET")
    from netweave import api
    from netweave.cli.batches import counting
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.time_view import inference_json, show_inference, show_times, times_json

    with working(f"reading {file}"):
        graph = api.load_for_timing(
            file,
            phase or ("TEST" if forward_only or purpose else "TRAIN"),
            input_shapes=input_shapes,
            stages=stages,
            level=level,
            trust=trust,
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
        found = api.time_layers(
            graph, iterations=iterations, backward=not forward_only, device=device_of(gpu), told=told
        )
    if json_file:
        write_json(times_json(found), json_file)
    if json_file != "-":
        show_times(output_console(), found, backward=not forward_only)

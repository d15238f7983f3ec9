"""``netweave test``: test results of a trained net."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from netweave.cli.options import json_option, parse_paths

if TYPE_CHECKING:
    from netweave.cli.options import InputShapes


@click.command(
    cls=CaffeCommand,
    examples=[
        "netweave test examples/lenet/solver.prototxt examples/lenet/snapshots/lenet_iter_600.caffemodel",
        "netweave test --model train_test.prototxt --weights net.caffemodel --iterations 100",
        "netweave test train_test.prototxt net.caffemodel --views",
        "netweave test yolo.cfg yolo_1000.weights --data voc.data",
    ],
)
@click.argument("net", metavar="NET", required=False)
@click.argument("weights", metavar="WEIGHTS", required=False)
@click.option("--model", metavar="NET", help="The net, as in the caffe command.")
@click.option("--weights", "named", metavar="WEIGHTS", help="The weights, as in the caffe command.")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    metavar="N",
    help="Number of batches; by default every record once.",
)
@click.option(
    "--views",
    is_flag=True,
    help="Average over ten crops: the corners and the centre, and their mirror images.",
)
@click.option(
    "--data",
    metavar="[PHASE=]PATH",
    multiple=True,
    callback=parse_paths,
    help="Where the images are, for a Darknet .cfg: a .data file, a folder like Pascal VOC's, or test=LIST.",
)
@gpu_option
@threads_option
@json_option
@allow_url_option
@in_state
def test(
    net: str | None,
    weights: str | None,
    model: str | None,
    named: str | None,
    iterations: int | None,
    views: bool,
    data: dict[str, str],
    gpu: str | None,
    threads: int | None,
    json_file: str | None,
    allow_urls: tuple[str, ...],
    stages: tuple[str, ...],
    level: int,
    input_shapes: InputShapes,
) -> None:
    """Run NET with WEIGHTS on its test data, and show the means of its outputs.

    NET is a solver.prototxt, whose test nets run for the number of batches it gives, a net with data
    layers, or a Darknet .cfg, whose mean average precision is shown. WEIGHTS is a .caffemodel, .weights
    or .checkpoint; separate several with commas.
    """
    file = one_of(net, model, what="net: netweave test NET WEIGHTS")
    found = one_of(weights, named, what="file of weights: netweave test NET WEIGHTS")
    from netweave import api
    from netweave.cli.batches import counting
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.run_log import output_lines

    with working(f"reading {file}"):
        phases = api.load_phases(
            file,
            input_shapes=input_shapes,
            data=data,
            stages=stages,
            level=level,
            allow_urls=allow_urls,
        )
    with counting("testing") as told:
        results = api.evaluate(
            phases,
            files_of(found),
            num_batches=iterations,
            views=views,
            device=device_of(gpu),
            threads=threads,
            told=told,
        )
    if json_file:
        write_json({result.phase: dict(result.outputs) for result in results}, json_file)
    if json_file == "-":
        return
    console = output_console()
    for result in results:
        if len(results) > 1:
            console.print(result.phase)
        for line in output_lines(result.outputs, result.weights):
            console.print(line, soft_wrap=True)

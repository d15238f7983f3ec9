"""``netweave extract``: activations of a trained net on its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netweave.cli.caffe import allow_url_option, device_of, files_of, gpu_option, in_state, threads_option
from netweave.cli.options import Command

if TYPE_CHECKING:
    from netweave.cli.options import InputShapes


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
    stages: tuple[str, ...],
    level: int,
    input_shapes: InputShapes,
) -> None:
    """Write the activations of LAYERS in NET, for each record of its data, to OUT.

    LAYERS is a comma-separated list of blobs or layers; it can include the labels. OUT is an .npz or .h5, or
    an .npy, .txt or .csv for a single layer. WEIGHTS is a .caffemodel or a .checkpoint.
    """
    from netweave import api
    from netweave.cli.batches import counting
    from netweave.cli.console import output_console, working

    with working(f"reading {net}"):
        phases = api.load_phases(
            net, phase, input_shapes=input_shapes, stages=stages, level=level, allow_urls=allow_urls
        )
    with counting("extracting") as told:
        found = api.extract(
            phases,
            files_of(weights),
            layers.split(","),
            num_batches=iterations,
            device=device_of(gpu),
            threads=threads,
            told=told,
        )
    api.save_arrays(out, found)
    sizes = ", ".join(f"{name} {'x'.join(map(str, array.shape))}" for name, array in found.items())
    output_console().print(f"{out}: {sizes}", soft_wrap=True)

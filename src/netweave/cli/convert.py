"""Commands that write files: convert, pack and fix."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netweave.cli.options import (
    NET,
    Command,
    InputShapes,
    engine_options,
    overwrite_option,
    parse_input_shapes,
    parse_sizes,
    reads_nets,
)
from netweave.errors import UsageError

if TYPE_CHECKING:
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
        comparison = api.convert_and_verify(
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
    if comparison.exit_status == 0:
        reason = comparison.sentence.removeprefix("identical: ")  # it says so itself
        text = f"read back and compared with the original: {reason}"
        console.print(Text(text, style=verdict_style(comparison.verdict)))
    else:
        console.print(Text(f"{out} is not done: it differs from {net}", style="bold red"))
        show_comparison(console, comparison, everything=False)
    return comparison.exit_status


@click.command(
    cls=Command,
    examples=[
        "netweave pack flowers/ flowers_lmdb --resize 256x256 --shuffle",
        "netweave pack train.txt train.rec --root images/ --resize 256",
        "netweave pack train-images-idx3-ubyte.gz train_lmdb",
        "netweave pack rows.csv rows.h5 --shape 3x32x32 --labels labels.csv",
        "netweave pack photos.lst train.rec --split-size 256MB",
        "netweave pack train-images-idx3-ubyte train_data.bin --to kvfile",
    ],
)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option(
    "--to",
    "--as",
    "kind",
    metavar="KIND",
    help="Format of TARGET: lmdb, recordio, hdf5, mnist or kvfile (SINGA).",
)
@click.option(
    "--from",
    "read_as",
    metavar="KIND",
    help="Format of SOURCE: lmdb, recordio, folder, images, hdf5, mnist, cifar, csv, numpy, kvfile "
    "or textfile.",
)
@click.option("--labels", metavar="FILE", help="File of the labels, if they are in a separate file.")
@click.option(
    "--root",
    metavar="FOLDER",
    help="Folder that paths in a list are relative to; by default the folder of the list.",
)
@click.option(
    "--shape", metavar="SIZES", callback=parse_sizes, help="Shape of a numeric record, such as 3x32x32."
)
@click.option(
    "--resize",
    metavar="SIZES",
    callback=parse_sizes,
    help="Resize all images to HEIGHTxWIDTH, or their shorter side to one number.",
)
@click.option("--gray", is_flag=True, help="Convert to one channel.")
@click.option("--shuffle", is_flag=True, help="Write the records in random order.")
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the random order.")
@click.option("--encode", type=click.Choice([".png", ".jpg"]), help="Encode the pixels as image files.")
@click.option(
    "--quality", type=click.IntRange(1, 100), metavar="N", default=95, show_default=True, help="JPEG quality."
)
@click.option(
    "--split-size",
    metavar="SIZE",
    help="Write several files of at most about SIZE (64MB), which are read as one by the name TARGET.",
)
@click.option(
    "--mean",
    metavar="FILE",
    help="Write the mean of all packed images to FILE: .binaryproto for Caffe, any other name for SINGA.",
)
def pack(source: str, target: str, **settings: Any) -> None:
    """Pack the records of SOURCE into TARGET, for training.

    SOURCE is a folder with one subfolder of images per class, a list of images (Caffe's .txt, MXNet's .lst),
    or an LMDB, .rec, .h5, .npz, .npy, .csv, idx, CIFAR or .kvfile file. URLs such as s3://... are read in
    place. TARGET is an MXNet .rec (with its .idx), an .h5, a .kvfile, or else a folder for a Caffe LMDB.
    """
    from netweave import api
    from netweave.cli.console import output_console, working
    from netweave.training.data.location import part_names

    with working(f"packing {source}"):
        count = api.pack(source, target, **settings)
    parts = part_names(target) if settings["split_size"] else []
    spread = f" in {len(parts)} files, {parts[0]} to {parts[-1]}" if parts else ""
    output_console().print(f"{target}: {count:,} records{spread}", soft_wrap=True)


@click.command(
    cls=Command,
    examples=[
        "netweave fix det1.prototxt port-symbol.json",
        "netweave fix net.prototxt,net.caffemodel port.py,port.pt --output mended.py",
        "netweave fix a.prototxt b-symbol.json --only 2 | patch -p1",
    ],
)
@click.argument("a")
@click.argument("b")
@click.option(
    "--output", "-o", metavar="FILE", help="Write the mended file of B to FILE, and compare A with it."
)
@overwrite_option
@click.option(
    "--only",
    "numbers",
    type=click.IntRange(min=1),
    metavar="N",
    multiple=True,
    help="Apply the fix of finding N of 'netweave compare' alone, in all its places; may be repeated.",
)
@functools.partial(reads_nets, several=True)
def fix(
    a: str,
    b: str,
    output: str | None,
    overwrite: bool,
    numbers: tuple[int, ...],
    reading: dict[str, Any],
) -> int:
    """Apply the fixes that a comparison proposes to the file of net B, and compare again.

    Prints the changes as a patch; no file is changed unless --output names one. Changed are settings in
    .prototxt, job.conf, symbol JSON, .cfg and Python files of PyTorch, Chainer and Keras, as a patch that
    'patch -p1' and 'git apply' take, and settings, arrays and nodes of ONNX models, as a patch to be read. Of
    every other fix it says why it was not applied.

    A text of --output holds no weights. To use it, name the weights of B with it: FILE,WEIGHTS. An ONNX model
    is whole.

    Exit status: without --output 0 if every fix was applied, else 1; with it that of the comparison of A with
    the mended B.
    """
    from netweave import api
    from netweave.cli.compare_view import show_fixed, show_patch
    from netweave.cli.console import working

    if output is not None:
        api.check_target(output, overwrite=overwrite)
    with working("comparing") as status:
        comparison = api.compare(a, b, progress=status.update, **reading)
        findings = _chosen(comparison, numbers)
        fixed = None
        if output is not None:
            fixed = api.fix_port(a, b, comparison, output, findings=findings, overwrite=overwrite, **reading)
    if fixed is None:
        mended = api.mend(comparison, findings)
        show_patch(mended)
        return 1 if mended.refused else 0
    return show_fixed(fixed)


def _chosen(comparison: Any, numbers: tuple[int, ...]) -> list[Any] | None:
    """Return the findings of the numbers that 'netweave compare' shows, in all places; None for all."""
    if not numbers:
        return None
    causes = comparison.causes
    if max(numbers) > len(causes):
        raise UsageError(f"there is no finding {max(numbers)}; the comparison has {len(causes)}")
    return [finding for number in numbers for finding in causes[number - 1].findings]

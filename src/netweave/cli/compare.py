"""Commands compare and bisect."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import click

from netweave import __version__
from netweave.cli.options import (
    NET,
    Command,
    everything_option,
    html_option,
    json_option,
    overwrite_option,
    reads_nets,
)
from netweave.errors import UsageError


@click.command(
    cls=Command,
    examples=[
        "netweave compare det1.prototxt det1-symbol.json",
        "netweave compare net.prototxt,net.caffemodel port.onnx --input-shape data=1x3x224x224",
        "netweave compare a.prototxt b-symbol.json --html found.html",
        "netweave compare a.prototxt b-symbol.json c.onnx",
        "netweave compare net.prototxt port.py --fix mended.py",
        "netweave compare a.prototxt b.onnx --memory 1GB --profile",
        "netweave compare net.py:Net,net.pt dump:activations.npz",
        "netweave compare Llama-3.1-8B port.py:Llama --tiny",
        "netweave compare net.py,net.pt port.py,port.pt --train --optimizer make_optimizer",
        "netweave compare a.prototxt b.onnx --image cat.jpg --preprocess-a caffe --preprocess-b torchvision",
    ],
)
@click.argument("nets", metavar="A B [MORE ...]", nargs=-1, required=True)
@everything_option
@click.option("--from", "first", metavar="LAYER", help="Compare from this layer of A on (it included).")
@click.option(
    "--to",
    "last",
    metavar="LAYER",
    help="Compare up to this layer of A (it included); what cannot be read after it is left out.",
)
@click.option("--probe", metavar="FILE", help="Run on these inputs of A: .npz, or .npy for one.")
@click.option("--image", metavar="FILE", help="Run on this image; see --preprocess-a and --preprocess-b.")
@click.option(
    "--preprocess-a",
    metavar="SPEC",
    help="How A is given the image: caffe, torchvision, gluon, keras-caffe, keras-tf, keras-torch, darknet, "
    "or settings such as 'resize=256,crop=224,order=bgr,mean=104;117;123,scale=1'.",
)
@click.option("--preprocess-b", metavar="SPEC", help="How B is given it; what makes a difference is named.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest error of an output, relative to its rms, that counts as none (0.001).",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Do not call nets equal (exit status 3 instead of 0) that differ in a setting without effect on the "
    "inputs tried, or in something that these did not exercise.",
)
@click.option(
    "--fix",
    "fix_file",
    metavar="FILE",
    help="Also write B with the proposed fixes applied to FILE, and compare A with it; see 'netweave fix'.",
)
@overwrite_option
@click.option(
    "--memory",
    metavar="SIZE",
    help="What the process may take of the memory (1GB, 512MB): values that do not fit are computed again. "
    "By default half of what is free.",
)
@click.option(
    "--train",
    is_flag=True,
    help="Also compare gradients, moving statistics and the first updates of both nets: PyTorch code with "
    "its weights, or two records that netweave.save_training wrote.",
)
@click.option(
    "--loss",
    metavar="NAME",
    help="With --train: a function in the code of both nets, of what the net returns; by default a function "
    "of all outputs.",
)
@click.option(
    "--optimizer",
    metavar="NAME",
    help="With --train: a function in the code of both nets that is given the module and returns its "
    "optimizer; by default configure_optimizers of the module, if it has that.",
)
@click.option(
    "--tiny",
    is_flag=True,
    help="Construct a Hugging Face model folder and its port from its config.json, shrunk to few layers, "
    "heads and features, with drawn weights; the verdict says what that cannot show.",
)
@click.option("--profile", is_flag=True, help="Also show where the time went, and the peak of the memory.")
@json_option
@click.option(
    "--sarif",
    "sarif_file",
    metavar="FILE",
    help="Also write the differences to FILE as SARIF 2.1.0, at the lines of B, for code hosts and editors.",
)
@html_option
@functools.partial(reads_nets, several=True)
def compare(
    nets: tuple[str, ...],
    everything: bool,
    fix_file: str | None,
    overwrite: bool,
    train: bool,
    loss: str | None,
    optimizer: str | None,
    profile: bool,
    json_file: str | None,
    sarif_file: str | None,
    html_file: str | None,
    reading: dict[str, Any],
    **settings: Any,
) -> int:
    """Say whether nets A and B compute the same, where they do not, why, and what to change.

    A and B are FILE or FILE,WEIGHTS. Of more than two nets every pair is compared and the verdicts are shown
    as a matrix. What --json wrote for two nets is shown again by 'netweave show'. B may be dump:FILE, the
    activations of a run of another implementation.

    Exit status: 0 equal, also under a condition that the verdict states; 1 different; 2 a file
    could not be read, or the call was wrong; 3 not decidable; 4 same structure, weights not compared,
    since a net came without some or all of them. With --fix, it is that of A and the mended B.
    """
    from netweave import api
    from netweave.cli.compare_view import show_comparison, show_fixed, show_matrix
    from netweave.cli.console import PlainConsole, output_console, working, write_json
    from netweave.cli.run_view import show_profile

    if train:
        others = {"fix": fix_file, "overwrite": overwrite, "html": html_file, "sarif": sarif_file}
        return _compare_training(
            nets,
            {**settings, **others, "profile": profile},
            reading,
            loss=loss,
            optimizer=optimizer,
            everything=everything,
            json_file=json_file,
        )
    if loss is not None or optimizer is not None:
        raise UsageError("--loss and --optimizer are for --train")
    pages = {"--html": html_file, "--sarif": sarif_file}
    flags = [flag for flag, file in pages.items() if file]
    _check_call(nets, fix_file, flags, overwrite=overwrite, tiny=settings["tiny"])
    with working("comparing") as status:
        given = {name: value for name, value in settings.items() if value is not None}
        options = api.CompareOptions(keep_values=bool(html_file), **given)
        matrix = api.compare_all(nets, options, progress=status.update, **reading)
    comparison = matrix.pairs[0, 1]
    if html_file:
        api.save_page(comparison, html_file)
    if sarif_file:
        write_json(api.comparison_sarif(comparison, version=__version__), sarif_file)
    if json_file:
        write_json(comparison.to_json() if len(nets) == 2 else matrix.to_json(), json_file)
    if json_file != "-" and len(nets) == 2:
        show_comparison(output_console(), comparison, everything=everything)
    elif json_file != "-":
        show_matrix(output_console(), matrix)
    status_of_all = matrix.exit_status
    seconds = matrix.seconds
    if fix_file:
        start = time.perf_counter()
        fixed = api.fix_port(
            nets[0], nets[1], comparison, fix_file, overwrite=overwrite, memory=options.memory, **reading
        )
        status_of_all = show_fixed(fixed)
        seconds["apply fixes, compare again"] = time.perf_counter() - start
    if profile:
        show_profile(output_console() if json_file != "-" else PlainConsole(stderr=True), seconds)
    return status_of_all


def _compare_training(
    nets: tuple[str, ...],
    settings: dict[str, Any],
    reading: dict[str, Any],
    *,
    loss: str | None,
    optimizer: str | None,
    everything: bool,
    json_file: str | None,
) -> int:
    """Compare two trainings, show what was found, and return the exit status."""
    from netweave import api
    from netweave.cli.compare_view import show_training_comparison
    from netweave.cli.console import output_console, working, write_json

    if len(nets) != 2:
        raise UsageError("--train compares two nets: netweave compare A B --train")
    given = sorted(name for name, value in settings.items() if value not in (None, False))
    if given:
        flag = {"first": "from", "last": "to"}.get(given[0], given[0].replace("_", "-"))
        raise UsageError(
            f"--train draws its own batch, and shows findings as text or --json; leave out --{flag}"
        )
    with working("comparing") as status:
        compared = api.compare_training(
            *nets, loss=loss, optimizer=optimizer, progress=status.update, **reading
        )
    if json_file:
        write_json(compared.to_json(), json_file)
    if json_file != "-":
        show_training_comparison(output_console(), compared, everything=everything)
    return compared.exit_status


def _check_call(
    nets: tuple[str, ...], fix_file: str | None, pages: Sequence[str], *, overwrite: bool, tiny: bool
) -> None:
    """Refuse what cannot be done, before anything is read."""
    from netweave import api

    if len(nets) < 2:
        raise UsageError("two nets or more are compared: netweave compare A B")
    if fix_file and tiny:
        raise UsageError("--fix compares the mended net at its full size; leave out --fix or --tiny")
    if fix_file and len(nets) > 2:
        raise UsageError("--fix mends the second of two nets; of more, compare two at a time")
    if pages and len(nets) > 2:
        raise UsageError(f"{pages[0]} shows two nets; of more, compare two at a time")
    if fix_file:
        api.check_target(fix_file, overwrite=overwrite)
    elif overwrite:
        raise UsageError("--overwrite is about the file of --fix, which is not given: --fix FILE")


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

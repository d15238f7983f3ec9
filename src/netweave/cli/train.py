"""``netweave train``: train the nets of a solver; also accepts the options of the ``caffe`` command."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from netweave.cli.caffe import CaffeCommand, allow_url_option, files_of, in_state, one_of, threads_option
from netweave.cli.options import parse_paths
from netweave.cli.several import is_silent_rank, launch_again, several_options
from netweave.errors import UsageError
from netweave.training.parallel.devices import parse_devices
from netweave.training.parallel.environment import rank_environment

OF_JOB = ("input_shapes", "data", "stages", "level", "scale_l1", "allow_urls")
"""Options of ``load_job``; the others are those of ``TrainOptions``."""

STOPPED = 130
"""Exit status after Ctrl-C, when a checkpoint was written and the run can be resumed."""


@click.command(
    cls=CaffeCommand,
    examples=[
        "netweave train examples/lenet/solver.prototxt",
        "netweave train --solver solver.prototxt --weights net.caffemodel --gpu 0",
        "netweave train solver.prototxt --snapshot net_iter_5000.solverstate",
        "netweave train solver.prototxt --data train=/data/train_lmdb --data test=/data/val_lmdb",
        "netweave train solver.prototxt --memory 4GB",
        "netweave train solver.prototxt --devices cpu:2 --restarts 3",
        "torchrun --nproc-per-node 2 -m netweave train solver.prototxt",
        "netweave train solver.prototxt --resume --events runs --plot curves.png",
        "netweave train -conf job.conf",
        "netweave train yolo.cfg --data voc.data --weights darknet53.conv.74",
    ],
)
@click.argument("solver", metavar="SOLVER", required=False)
@click.option("--solver", "named", metavar="SOLVER", help="The solver, as in the caffe command.")
@click.option("-conf", "--conf", metavar="FILE", help="The job.conf, as in singa-run.sh.")
@click.option("--snapshot", metavar="FILE", help="Resume from a .checkpoint, or from Caffe's .solverstate.")
@click.option("--resume", "-resume", is_flag=True, help="Resume from the latest complete checkpoint.")
@click.option(
    "--weights", metavar="FILES", help="Start from these weights; separate several files with commas."
)
@click.option(
    "--data",
    metavar="[PHASE=]PATH",
    multiple=True,
    callback=parse_paths,
    help="Read the records of a phase (train, test) from PATH instead of the path in the net; may be "
    "repeated. For Darknet: its .data file, or a folder like Pascal VOC's.",
)
@allow_url_option
@click.option(
    "--scale-l1",
    type=click.FloatRange(0),
    metavar="X",
    default=0.0,
    help="Weight of an L1 penalty on the scales of batch normalisation, before netweave prune (Darknet).",
)
@click.option(
    "--gpu",
    metavar="NUMBERS",
    help="Train on this GPU, or on several with commas between (0,1); else on the CPU.",
)
@several_options
@click.option(
    "--precision",
    type=click.Choice(["f32", "bf16"]),
    default="f32",
    show_default=True,
    help="Precision of convolutions and matrix products; parameters and losses stay f32.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory limit of each process (4GB): recompute as few values in backward as needed.",
)
@click.option("--seed", type=int, metavar="N", help="Random seed, instead of the solver's.")
@threads_option
@click.option("--events", metavar="DIR", help="Write TensorBoard event files to DIR.")
@click.option(
    "--plot", metavar="FILE", help="Plot loss, test results and learning rate to FILE (.png, .svg, .pdf)."
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    default=3,
    show_default=True,
    help="Number of checkpoints to keep.",
)
@click.option(
    "--watch",
    "monitor",
    metavar="NAME",
    multiple=True,
    help="Show statistics of a layer's output or a parameter every display interval, and write histograms "
    "to --events; NAME may contain * and be repeated.",
)
@click.option("--trace", metavar="FILE", help="Write a timeline for chrome://tracing or Perfetto to FILE.")
@in_state
def train(
    solver: str | None,
    named: str | None,
    conf: str | None,
    snapshot: str | None,
    weights: str | None,
    gpu: str | None,
    **settings: Any,
) -> int | None:
    """Train a net with SOLVER: a Caffe solver.prototxt, a SINGA job.conf, or a Darknet .cfg of YOLO v2 or v3.

    Ctrl-C writes a checkpoint and stops; --resume continues from there. Paths in the file are relative to
    the working folder or, if the net is not found there, to the nearest folder above SOLVER that contains
    it.
    """
    file = one_of(solver, named, conf, what="solver: netweave train SOLVER")
    if settings["resume"] and snapshot:
        raise UsageError("--resume and --snapshot both select where to resume; give only one")
    if settings["devices"] and gpu:
        raise UsageError("--devices and --gpu both select where to compute; give only one")
    devices = settings["devices"] or gpu
    names = parse_devices(devices or "cpu")
    if len(names) > 1 and rank_environment() is None:
        return launch_again(names, settings["restarts"])
    from netweave import api
    from netweave.api.jobs import registered
    from netweave.cli.console import working
    from netweave.cli.train_view import TrainView

    with working(f"reading {file}"):
        job = api.load_job(file, **{name: settings.pop(name) for name in OF_JOB})
    register = nullcontext() if is_silent_rank() else registered(job.name, file)
    with register as entry, TrainView(job, entry, silent=is_silent_rank()) as view:
        settings |= {"resume": snapshot or settings["resume"], "devices": devices}
        api.train(job, api.TrainOptions(weights=files_of(weights), **settings), watch=view.show)
    return STOPPED if view.stopped else None

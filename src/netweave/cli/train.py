"""``netweave train``: a solver's nets, trained; also in the spelling of the ``caffe`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netweave.cli.options import Command, parse_input_shapes
from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.cli.options import InputShapes

STOPPED = 130
"""Exit status after Ctrl-C, when a checkpoint was written and the run can go on."""


@click.command(
    cls=Command,
    examples=[
        "netweave train examples/lenet/solver.prototxt",
        "netweave train --solver solver.prototxt --weights net.caffemodel --gpu 0",
        "netweave train solver.prototxt --snapshot net_iter_5000.solverstate",
        "netweave train solver.prototxt --resume --trace trace.json",
    ],
)
@click.argument("solver", metavar="SOLVER", required=False)
@click.option("--solver", "named", metavar="SOLVER", help="The solver, as the caffe command spells it.")
@click.option("--snapshot", metavar="FILE", help="Go on from a .checkpoint, or from Caffe's .solverstate.")
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint that is whole.")
@click.option("--weights", metavar="FILES", help="Start from these weights; commas between files.")
@click.option(
    "--gpu", metavar="NUMBER", help="Compute on this GPU; otherwise on the CPU, whatever SOLVER says."
)
@click.option("--seed", type=int, metavar="N", help="Draw from this seed, instead of the solver's.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads that decode; found by itself.")
@click.option("--trace", metavar="FILE", help="Write a timeline to FILE, for chrome://tracing or Perfetto.")
@click.option("--stage", "stages", metavar="NAME", multiple=True, help="Stage to be in; may be repeated.")
@click.option("--level", type=int, metavar="N", default=0, show_default=True, help="Level to be at.")
@click.option(
    "--input-shape",
    "input_shapes",
    metavar="NAME=SIZES",
    multiple=True,
    callback=parse_input_shapes,
    help="Size of an input, where neither the file nor the data says; may be repeated.",
)
def train(
    solver: str | None,
    named: str | None,
    snapshot: str | None,
    resume: bool,
    weights: str | None,
    gpu: str | None,
    seed: int | None,
    threads: int | None,
    trace: str | None,
    stages: tuple[str, ...],
    level: int,
    input_shapes: InputShapes,
) -> int | None:
    """Train the nets of SOLVER, a solver.prototxt of Caffe's.

    Ctrl-C writes a checkpoint and stops; --resume goes on from there. Names in the file are relative to
    the working folder, or to the folder above SOLVER in which its net is found.
    """
    file = _one_solver(solver, named)
    if resume and snapshot:
        raise UsageError("--resume and --snapshot both say where to go on; give one")
    from netweave import api
    from netweave.cli.console import working
    from netweave.cli.train_view import TrainView

    with working(f"reading {file}"):
        job = api.load_job(file, input_shapes=input_shapes, stages=stages, level=level)
    with TrainView(job) as view:
        api.train(
            job,
            resume=snapshot or resume,
            weights=weights.split(",") if weights else (),
            device=_device(gpu),
            seed=seed,
            threads=threads,
            trace=trace,
            watch=view.show,
            step=view.step,
            told=view.note,
            busy=view.show_busy,
        )
    return STOPPED if view.stopped else None


def _one_solver(argument: str | None, named: str | None) -> str:
    if (argument is None) == (named is None):
        raise UsageError("give one solver: netweave train SOLVER (see netweave train --help)")
    return argument or named or ""


def _device(gpu: str | None) -> str:
    if gpu is None:
        return "cpu"
    if not gpu.isdecimal():
        raise UsageError(
            f"--gpu {gpu}: one device is used at a time so far; give its number, such as --gpu 0"
        )
    return f"cuda:{gpu}"

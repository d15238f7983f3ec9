"""Commands train, test and jobs."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

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
from netweave.cli.options import Command, CommandGroup, json_option, parse_paths
from netweave.cli.several import is_silent_rank, launch_again, several_options
from netweave.errors import UsageError
from netweave.training.parallel.devices import parse_devices
from netweave.training.parallel.environment import INTERRUPTED, STOP_SIGNALS, rank_environment

OF_JOB = ("data", "allow_urls")
"""Options of ``load_job``, with the state of the net; the others are those of ``TrainOptions``."""


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
    "--requeued", is_flag=True, help="Resume from the latest checkpoint, or start where there is none yet."
)
@click.option(
    "--weights", metavar="FILES", help="Start from these weights; separate several files with commas."
)
@click.option(
    "--data",
    metavar="[PHASE=]PATH",
    multiple=True,
    callback=parse_paths,
    help="Read the records of a phase (train, test; of all without PHASE=) from PATH instead of the path in "
    "the net: an LMDB, a list or a folder of images; mean=FILE names a mean file. May be repeated. For "
    "Darknet: its .data file, or a folder like Pascal VOC's.",
)
@allow_url_option
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
    "--checkpoint-every",
    metavar="TIME",
    help="Write a checkpoint after so long (60s, 10m, 2h), besides those of the solver.",
)
@click.option(
    "--watch",
    "monitor",
    metavar="NAME",
    multiple=True,
    help="Show statistics of a layer's output or a parameter every display interval, and write histograms "
    "to --events; NAME may contain * and be repeated.",
)
@click.option(
    "--stop-signal",
    type=click.Choice(STOP_SIGNALS),
    default="TERM",
    help="A signal besides TERM after which the run writes a checkpoint and ends with the exit status 143.",
)
@click.option("--trace", metavar="FILE", help="Write a timeline for chrome://tracing or Perfetto to FILE.")
@in_state
def train(
    solver: str | None,
    named: str | None,
    conf: str | None,
    snapshot: str | None,
    requeued: bool,
    weights: str | None,
    gpu: str | None,
    state: dict[str, Any],
    **settings: Any,
) -> int | None:
    """Train a net with SOLVER: a Caffe solver.prototxt, a SINGA job.conf, or a Darknet .cfg of YOLO v2 or v3.

    Ctrl-C writes a checkpoint and stops; so does SIGTERM, which clusters send before they take a machine
    away, with the exit status 143. --resume continues from there. Paths in the file are relative to
    the working folder or, if the net is not found there, to the nearest folder above SOLVER that contains
    it.
    """
    file = one_of(solver, named, conf, what="solver: netweave train SOLVER")
    if settings["resume"] + requeued + bool(snapshot) > 1:
        raise UsageError("--resume, --requeued and --snapshot all select where to resume; give only one")
    if settings["devices"] and gpu:
        raise UsageError("--devices and --gpu both select where to compute; give only one")
    devices = settings["devices"] or gpu
    names = parse_devices(devices or "cpu")
    if len(names) > 1 and rank_environment() is None and settings["cluster"] != "auto":
        of_ranks = {name: settings[name] for name in ("restarts", "grace_s", "stop_signal")}
        return launch_again(names, **of_ranks)
    from netweave import api
    from netweave.api.jobs import ledger_of, registered
    from netweave.cli.console import working
    from netweave.cli.run_view import TrainView
    from netweave.training.checkpoint_file import RESUME_IF_ANY

    with working(f"reading {file}"):
        job = api.load_job(file, **state, **{name: settings.pop(name) for name in OF_JOB})
    register = nullcontext() if is_silent_rank() else registered(job.name, file, job.checkpoints.prefix)
    with register as entry, TrainView(job, entry, silent=is_silent_rank()) as view:
        resume = RESUME_IF_ANY if requeued else snapshot or settings["resume"]
        ledger = ledger_of("", job.checkpoints.prefix) if job.checkpoints.prefix else None
        settings |= {"resume": resume, "devices": devices, "ledger": ledger}
        api.train(job, api.TrainOptions(weights=files_of(weights), **settings), watch=view.show)
    return INTERRUPTED if view.stopped else None


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
    state: dict[str, Any],
) -> None:
    """Run NET with WEIGHTS on its test data, and show the means of its outputs.

    NET is a solver.prototxt, whose test nets run for the number of batches it gives, a net with data
    layers, or a Darknet .cfg, whose mean average precision is shown. WEIGHTS is a .caffemodel, .weights
    or .checkpoint; separate several with commas.
    """
    file = one_of(net, model, what="net: netweave test NET WEIGHTS")
    weights_file = one_of(weights, named, what="file of weights: netweave test NET WEIGHTS")
    from netweave import api
    from netweave.cli.console import counting, output_console, working, write_json
    from netweave.cli.run_log import output_lines

    with working(f"reading {file}"):
        phases = api.load_phases(
            file,
            data=data,
            allow_urls=allow_urls,
            **state,
        )
    with counting("testing") as told:
        results = api.evaluate(
            phases,
            files_of(weights_file),
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


@click.group(cls=CommandGroup, examples=["netweave jobs list", "netweave jobs kill 0"])
def jobs() -> None:
    """List, view and stop the jobs that are being trained.

    Every netweave train is in a register on this machine, in ~/.local/state/netweave/jobs, or in the folder
    that the environment variable NETWEAVE_JOBS names.
    """


@jobs.command("list", cls=Command, examples=["netweave jobs list"])
def list_() -> None:
    """List the jobs that are running."""
    from netweave.api.jobs import list_jobs
    from netweave.cli.console import output_console

    console = output_console()
    rows = list_jobs()
    if rows:
        console.print("JOB ID  NAME                  WHERE                     RUNNING FOR  GOODPUT")
    for job in rows:
        where = f"{job.host}|{job.pid}"
        running = f"{time.time() - job.started:,.0f} s"
        share = f"{job.goodput.kept:.0%}" if job.goodput else ""
        console.print(
            f"{job.id:<7} {job.name:<21} {where:<25} {running:<12} {share}".rstrip(), soft_wrap=True
        )
    if not rows:
        console.print("no jobs are running")


@jobs.command(cls=Command, examples=["netweave jobs view 0"])
@click.argument("number", metavar="ID", type=int)
def view(number: int) -> None:
    """Show where job ID runs, and what it trains."""
    from netweave.api.jobs import find_job
    from netweave.cli.console import output_console

    job = find_job(number)
    console = output_console()
    for name, value in (
        ("job", f"{job.id} ({job.name})"),
        ("process", f"{job.host}|{job.pid}"),
        ("file", job.file),
        ("folder", job.folder),
        ("started", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.started))),
    ):
        console.print(f"{name:<8} {value}", soft_wrap=True)
    if job.goodput:
        console.print(str(job.goodput), soft_wrap=True)


@jobs.command(cls=Command, examples=["netweave jobs kill 0", "netweave jobs kill 0 --now"])
@click.argument("number", metavar="ID", type=int)
@click.option("--now", is_flag=True, help="Kill it without a checkpoint, as singa-console.sh does.")
def kill(number: int, now: bool) -> None:
    """Stop job ID; it writes a checkpoint first."""
    from netweave.api.jobs import kill_job
    from netweave.cli.console import output_console

    job = kill_job(number, at_once=now)
    done = "killed" if now else "asked to write a checkpoint and stop"
    output_console().print(f"job {job.id} ({job.name}, process {job.pid}): {done}", soft_wrap=True)

"""Training on several devices from the command line: options, one process for each device, and plans."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from netweave.cli.options import Command, json_option
from netweave.training.parallel.environment import rank_environment
from netweave.training.parallel.plan import COMPRESSIONS, EXCHANGES, PIPELINES

_OPTIONS = (
    click.option(
        "--devices",
        metavar="DEVICES",
        help="Train on several devices of this machine, a process each: cpu:2, or 0,1 for GPUs.",
    ),
    click.option(
        "--cluster",
        metavar="FILE",
        help="Worker groups and servers, in the words of a job.conf's cluster; --devices must be as many as "
        "it has processes; or auto, for the fastest way of netweave plan that fits in the free memory.",
    ),
    click.option(
        "--exchange",
        type=click.Choice(EXCHANGES),
        default="overlapped",
        show_default=True,
        help="When and between whom several devices exchange gradients.",
    ),
    click.option(
        "--compress",
        "compression",
        type=click.Choice(COMPRESSIONS),
        default="none",
        show_default=True,
        help="What gradients are sent as.",
    ),
    click.option(
        "--threshold",
        type=float,
        metavar="X",
        help="What one code of --compress 2bit stands for, such as 0.005.",
    ),
    click.option(
        "--batch",
        type=click.Choice(["split", "multiply"]),
        help="Whether devices split the file's batch or take one each; by default as its source does.",
    ),
    click.option(
        "--sync-batch-norm/--no-sync-batch-norm",
        default=True,
        show_default=True,
        help="Whether batch normalisation takes the statistics of the whole batch, or of each device's part.",
    ),
    click.option(
        "--micro-batches",
        type=click.IntRange(1),
        metavar="M",
        help="Make each device a stage of a pipeline, through which a batch passes in M parts; a layer's "
        "location in --cluster says where it lives, else the net is cut into stages of like cost.",
    ),
    click.option(
        "--pipeline",
        type=click.Choice(PIPELINES),
        default=PIPELINES[0],
        show_default=True,
        help="Order of passes of --micro-batches: 1f1b holds the activations of fewer of them than gpipe.",
    ),
    click.option(
        "--log-placement",
        is_flag=True,
        help="Print a line for each layer: which device computes which part, and the bytes in and out.",
    ),
    click.option(
        "--same-bits",
        type=click.IntRange(1),
        metavar="N",
        help="Compute each batch in N shards, so that the result is bit-identical on any number of devices "
        "that divides N.",
    ),
    click.option(
        "--other-bits",
        is_flag=True,
        help="Resume although the result will not be that of --same-bits: on another processor, for example.",
    ),
    click.option(
        "--slice-elements",
        type=click.IntRange(64),
        metavar="N",
        help="Elements that are exchanged at once, a multiple of 64; chosen by the link.",
    ),
    click.option(
        "--restarts",
        type=click.IntRange(0),
        metavar="N",
        default=0,
        show_default=True,
        help="Start all processes of --devices again, so often, from the last checkpoint when one dies.",
    ),
    click.option(
        "--grace",
        "grace_s",
        type=click.FloatRange(1),
        metavar="SECONDS",
        default=30,
        show_default=True,
        help="Time of the processes of --devices to write a checkpoint after SIGTERM; then they are killed.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(1),
        metavar="SECONDS",
        help="Give up on a process that has not answered for so long; a minute by default.",
    ),
)
"""Options of training on several devices, as their help lists them."""


def several_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of training on several devices."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def launch_again(devices: Sequence[str], *, restarts: int, grace_s: float, stop_signal: str) -> int:
    """Run this command once for each device, as ranks of one run; return the exit status."""
    from netweave.api.jobs import launch
    from netweave.api.runs import need_torch

    need_torch()
    arguments = click.get_current_context().find_root().obj
    command = [sys.executable, "-m", "netweave", *arguments]
    return launch(command, devices, restarts=restarts, grace_s=grace_s, stop_signal=stop_signal, tell=_tell)


def is_silent_rank() -> bool:
    """Return whether this process is a rank that leaves the showing to the first."""
    environment = rank_environment()
    return environment is not None and environment.rank > 0


def _tell(text: str) -> None:
    click.echo(f"netweave: {text}", err=True)


@click.command(
    cls=Command,
    examples=[
        "netweave plan solver.prototxt --machines 2x1 --link 1gbit",
        "netweave plan job.conf --machines 16x8 --link 25gbit --device h100 --json -",
    ],
)
@click.argument("job", metavar="SOLVER")
@click.option(
    "--machines",
    metavar="NxM",
    required=True,
    help="Number of machines, and of devices of each, such as 2x4.",
)
@click.option(
    "--link",
    metavar="RATE",
    default="1gbit",
    show_default=True,
    help="Bits per second and way of each machine's link to the others: 200mbit, 25gbit.",
)
@click.option(
    "--device",
    metavar="NAME",
    help="Take the devices from a table (k80, v100, a100, h100, h200); by default each is like a processor "
    "of this machine, which is measured.",
)
@click.option(
    "--batch",
    type=click.Choice(["split", "multiply"]),
    help="Whether devices split the file's batch or take one each; by default as its source does.",
)
@json_option
def plan(
    job: str, machines: str, link: str, device: str | None, batch: str | None, json_file: str | None
) -> None:
    """Show how long an update of SOLVER would take on several devices, by each way of splitting the net.

    Nothing is trained. The times, memory and bytes are predictions: the program of one worker is run through
    the scheduler of a run, with a clock in place of threads.
    """
    from netweave import api
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.partition_view import plan_json, show_plan

    with working(f"reading {job}") as status:
        found = api.plan_run(
            job,
            machines=machines,
            link=link,
            device=device,
            batch=batch,
            told=lambda name: status.update(f"planning: {name}"),
        )
    if json_file:
        write_json(plan_json(found), json_file)
    if json_file != "-":
        show_plan(output_console(), found)

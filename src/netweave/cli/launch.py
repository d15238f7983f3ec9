"""The command launch: scripts of several workers, as MXNet's ``tools/launch.py`` starts them."""

from __future__ import annotations

import sys

import click

from netweave.cli.options import Command


@click.command(
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    examples=[
        "netweave launch -n 2 python train_mnist.py --kv-store dist_async",
        "netweave launch -n 4 -s 2 --restarts 3 python train.py",
    ],
)
@click.option(
    "-n", "--num-workers", type=click.IntRange(1), required=True, help="Processes that run the command."
)
@click.option(
    "-s",
    "--num-servers",
    type=click.IntRange(1),
    help="How many of the workers hold the keys of a dist_async store beside their work; all by default.",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=0,
    help="How often all are started again when one dies.",
    show_default=True,
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def launch(num_workers: int, num_servers: int | None, restarts: int, command: tuple[str, ...]) -> int:
    """Run a training script as several workers of this machine, which find each other.

    The script makes a store of theirs (mx.kv.create('dist_sync') or 'dist_async', or the same of
    netweave.kvstore) or trains with netweave.exact. Each worker gets an equal share of the threads; Ctrl-C
    goes to all. Python is the one that runs netweave.
    """
    from netweave.api.kvstore import SERVERS
    from netweave.cli.console import PlainConsole
    from netweave.training.parallel.launcher import Launcher

    program = list(command)
    if program[0].endswith(".py"):
        program.insert(0, sys.executable)
    elif program[0] in {"python", "python3"}:  # the one that has Netweave
        program[0] = sys.executable
    environment = {} if num_servers is None else {SERVERS: str(min(num_servers, num_workers))}
    console = PlainConsole(stderr=True)
    return Launcher(
        program,
        ["cpu"] * num_workers,
        restarts,
        lambda text: console.print(f"netweave: {text}"),
        environment,
    ).run()

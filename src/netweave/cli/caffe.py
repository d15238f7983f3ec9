"""What the commands that stand in for the ``caffe`` tool have in common: its spelling of options."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from netweave.cli.options import parse_input_shapes
from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


gpu_option = click.option(
    "--gpu", metavar="NUMBER", help="Compute on this GPU; otherwise on the CPU, whatever the files say."
)

threads_option = click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="Threads that decode; found by itself."
)


def in_state(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say in which state a net of Caffe's is read."""

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
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **kwargs)

    return wrapped


def device_of(gpu: str | None) -> str:
    """Return the device that ``--gpu`` names, as torch has it.

    Raises:
        UsageError: It is no number.
    """
    if gpu is None:
        return "cpu"
    if not gpu.isdecimal():
        raise UsageError(
            f"--gpu {gpu}: one device is used at a time so far; give its number, such as --gpu 0"
        )
    return f"cuda:{gpu}"


def one_of(argument: str | None, named: str | None, what: str) -> str:
    """Return what is given either as an argument or, as the caffe command spells it, by an option.

    Raises:
        UsageError: Both or none are given.
    """
    if (argument is None) == (named is None):
        raise UsageError(f"give one {what} (see --help)")
    return argument or named or ""


def files_of(weights: str | None) -> tuple[str, ...]:
    """Return the files of weights, which have commas between."""
    return tuple(weights.split(",")) if weights else ()

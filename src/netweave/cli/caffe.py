"""Options shared by the commands that replace the ``caffe`` tool, under its names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from netweave.cli.options import Command, parse_input_shapes
from netweave.errors import UsageError


class CaffeCommand(Command):
    """A command that also takes its options with one dash, as the ``caffe`` tool's flags may be written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        known = {name for parameter in self.get_params(ctx) for name in parameter.opts}

        def written_out(argument: str) -> str:
            name = argument.partition("=")[0]
            one_dash = name.startswith("-") and not name.startswith("--") and len(name) > 2
            return f"-{argument}" if one_dash and f"-{name}" in known else argument

        return super().parse_args(ctx, [written_out(argument) for argument in args])


gpu_option = click.option(
    "--gpu", metavar="NUMBER", help="Compute on this GPU. The default is the CPU, whatever the files say."
)

allow_url_option = click.option(
    "--allow-url",
    "allow_urls",
    metavar="URL",
    multiple=True,
    help="Let the files name URLs below URL (s3://bucket) for their records; may be repeated.",
)

threads_option = click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    help="Number of decoder threads; chosen automatically by default.",
)


def _split_stages(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(",") if name)


def in_state(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the state (``NetState``) in which a Caffe net is read.

    The command is given them together, as ``state``.
    """

    @click.option(
        "--stage",
        "stages",
        metavar="NAMES",
        multiple=True,
        callback=_split_stages,
        help="Stage of the net (when training, of the training net); separate several with commas.",
    )
    @click.option("--level", type=int, metavar="N", default=0, show_default=True, help="Level of the net.")
    @click.option(
        "--input-shape",
        "input_shapes",
        metavar="NAME=SIZES",
        multiple=True,
        callback=parse_input_shapes,
        help="Sizes of an input, if neither the file nor the data gives them; may be repeated.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        state = {name: kwargs.pop(name) for name in ("stages", "level", "input_shapes")}
        return command(*args, state=state, **kwargs)

    return wrapped


def device_of(gpu: str | None) -> str:
    """Return torch's name of the device that ``--gpu`` selects.

    Raises:
        UsageError: It is not a number.
    """
    if gpu is None:
        return "cpu"
    if not gpu.isdecimal():
        raise UsageError(f"--gpu {gpu}: several devices are not supported; give one number, such as --gpu 0")
    return f"cuda:{gpu}"


def one_of(*values: str | None, what: str) -> str:
    """Return the value given either as an argument or by an option that another framework's command has.

    Raises:
        UsageError: Several are given, or none.
    """
    given = [value for value in values if value is not None]
    if len(given) != 1:
        raise UsageError(f"give one {what} (see --help)")
    return given[0]


def files_of(weights: str | None) -> tuple[str, ...]:
    """Return the weight files from a comma-separated list."""
    return tuple(weights.split(",")) if weights else ()

"""Options that several commands share, and their parsers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from netweave.runtime.backends import AUTO, BACKENDS, PRECISIONS

if TYPE_CHECKING:
    from netweave.graph import Graph


InputShapes = dict[str, tuple[int, ...]]


class _WithExamples(click.Command):
    """Base of commands and groups of commands: the examples in their help."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, unwrapped."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


class Command(_WithExamples):
    """A command whose help ends with examples."""


class CommandGroup(_WithExamples, click.Group):
    """A command with commands of its own, whose help ends with examples."""


def parse_input_shapes(context: click.Context, option: click.Parameter, values: Sequence[str]) -> InputShapes:
    """Parse ``NAME=SIZES``, sizes separated by ``x`` or ``,``, into sizes by name."""
    shapes = {}
    for value in values:
        name, equals, sizes = value.rpartition("=")
        parsed = _sizes(sizes)
        if not equals or not name or not parsed:
            raise click.BadParameter(
                f"{value!r} is not NAME=SIZES, such as data=1x3x224x224", ctx=context, param=option
            )
        shapes[name] = parsed
    return shapes


def parse_paths(context: click.Context, option: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=PATH`` into paths by name; a path alone has the name ``""``."""
    paths = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals:
            name, path = "", value
        if (equals and not name) or not path:
            raise click.BadParameter(
                f"{value!r} is not NAME=PATH, such as train=/data/train_lmdb", ctx=context, param=option
            )
        paths[name] = path
    return paths


def parse_sizes(context: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Parse sizes separated by ``x`` or ``,``; empty if the option is not given."""
    if value is None:
        return ()
    parsed = _sizes(value)
    if not parsed:
        raise click.BadParameter(f"{value!r} is not SIZES, such as 3x32x32", ctx=context, param=option)
    return parsed


def _sizes(text: str) -> tuple[int, ...]:
    """Return the sizes, each at least 1; empty if the text is malformed."""
    parts = re.split(r"[x,]", text)
    good = all(part.isdecimal() and int(part) > 0 for part in parts)
    return tuple(int(part) for part in parts) if good else ()


def _with_front_end(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Fail before any work is done if no page can be made."""
    if value is not None:
        from netweave.viewer import check_front_end

        check_front_end()
    return value


NET = functools.partial(click.argument, metavar="NET")
"""An argument that names a net, FILE or FILE,WEIGHTS; the API parses it."""

json_option = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="Also write the result as JSON to FILE; '-' prints only the JSON, on standard output.",
)

html_option = click.option(
    "--html",
    "html_file",
    metavar="FILE",
    callback=_with_front_end,
    help="Also write the result to FILE as a page that a browser opens offline.",
)


overwrite_option = click.option(
    "--overwrite",
    is_flag=True,
    help="Replace the file of the mended net if it exists, also if it is B itself.",
)


everything_option = click.option(
    "--all", "everything", is_flag=True, help="Show every layer, not only those near differences."
)


def reads_nets(command: Callable[..., Any], *, several: bool = False) -> Callable[..., Any]:
    """Add the options for reading nets, and pass the command ``load``, which reads a net by its name.

    Args:
        command: The command.
        several: The command hands several nets to the API, and is passed ``reading``, the options for it.
    """

    @click.option(
        "--input-shape",
        "input_shapes",
        metavar="NAME=SIZES",
        multiple=True,
        callback=parse_input_shapes,
        help="Sizes of an input, if the file does not give them or to override them "
        "(data=1x3x224x224); may be repeated.",
    )
    @click.option(
        "--phase",
        type=click.Choice(["TEST", "TRAIN", "VALIDATE"], case_sensitive=False),
        default="TEST",
        metavar="TEST|TRAIN",
        show_default=True,
        help="Phase to read, for Caffe and SINGA nets; SINGA also has VALIDATE.",
    )
    @click.option(
        "--stage", "stages", metavar="NAME", multiple=True, help="Stage of the net (Caffe); may be repeated."
    )
    @click.option(
        "--level", type=int, metavar="N", default=0, show_default=True, help="Level of the net (Caffe)."
    )
    @click.option(
        "--root", metavar="FOLDER", help="Folder that imports of Python code start from, if it is not found."
    )
    @click.option(
        "--config",
        metavar="FILE",
        help="Settings for the constructor in Python code (YAML, JSON or TOML; FILE:KEY for a part).",
    )
    @click.option(
        "--trust", is_flag=True, help="Run Python code in the files without the sandbox, as you would run it."
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        input_shapes: InputShapes,
        phase: str,
        stages: tuple[str, ...],
        level: int,
        root: str | None,
        config: str | None,
        trust: bool,
        **kwargs: Any,
    ) -> Any:
        options: dict[str, Any] = {
            "input_shapes": input_shapes,
            "phase": phase.upper(),
            "stages": stages,
            "level": level,
            "root": root,
            "config": config,
            "trust": trust,
        }
        if several:
            return command(*args, reading=options, **kwargs)

        def load(net: str) -> Graph:
            from netweave import api
            from netweave.cli.console import working

            with working(f"reading {net}"):
                return api.load(net, **options)

        return command(*args, load=load, **kwargs)

    return wrapped


def engine_options(*, chooses: bool) -> Callable[[Callable[..., Any]], Any]:
    """Return what adds the options for how a net is run, and passes the command ``engine`` with their values.

    Args:
        chooses: The command can choose the fastest backend, and does by default.
    """
    backends = (AUTO, *BACKENDS) if chooses else BACKENDS

    def add(command: Callable[..., Any]) -> Any:
        @click.option(
            "--backend",
            type=click.Choice(backends),
            default=backends[0],
            show_default=True,
            help="Backend that runs the net; openvino, opencv and torch are optional extras"
            + ("; auto takes the fastest of those that are installed." if chooses else "."),
        )
        @click.option(
            "--precision",
            type=click.Choice(PRECISIONS),
            default=PRECISIONS[0],
            show_default=True,
            help="What convolutions and matrix products are computed in; bf16 and f16 need a processor with "
            "such arithmetic, and openvino or torch.",
        )
        @click.option(
            "--threads",
            type=click.IntRange(1),
            metavar="N",
            help="Threads that one run computes with; by default one for each core.",
        )
        @functools.wraps(command)
        def wrapped(*args: Any, backend: str, precision: str, threads: int | None, **kwargs: Any) -> Any:
            engine = {"backend": backend, "precision": precision, "threads": threads}
            return command(*args, engine=engine, **kwargs)

        return wrapped

    return add

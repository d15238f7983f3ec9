"""The command line: parses arguments, calls the API, prints results.

To add a command: write it in a file of its own here and add it to ``SECTIONS``. Everything heavy (the
API, rich) is imported inside the functions that need it, so that ``netweave --help`` is fast.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from netweave import __version__
from netweave.cli.boxes import anchors, evaluate_boxes
from netweave.cli.compare import bisect, compare
from netweave.cli.convert import convert, fix, pack
from netweave.cli.inspect import inspect, memory, show
from netweave.cli.launch import launch
from netweave.cli.run import extract, run, time
from netweave.cli.serve import doctor, mcp, serve
from netweave.cli.several import plan
from netweave.cli.train import jobs, test, train
from netweave.deferred import defer
from netweave.errors import NetweaveError, PeerError
from netweave.files.output_files import writing
from netweave.training.parallel.environment import GROUP_LOST, is_rank, leave_at_once, leave_error

SECTIONS = {
    "Compare": (inspect, compare, fix, show, bisect, run),
    "Convert": (convert,),
    "Train": (train, plan, launch, jobs, test, extract, time, memory, pack, evaluate_boxes, anchors),
    "Serve": (serve, mcp, doctor),
}
"""The commands, by what they are for, in the order of the help."""

COMMANDS = tuple(command for commands in SECTIONS.values() for command in commands)

SHORT_LIVED = (bisect, compare, convert, fix, inspect, run)
"""Commands that need their nets until they end, and train nothing."""

UNSHORTENED = 1000
"""Characters of a sentence about a command, so many that click shortens none."""

COMPLETE = "_NETWEAVE_COMPLETE"
"""The variable in which a shell asks for its script of completion, and later for what completes a word."""

BAD_CALL = 2
"""Exit status when a file could not be read, or the command was used incorrectly."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, by the convention of shells."""

UNREAD = 141
"""Exit status when the reader of our output closed the pipe (``| head``), by the convention of shells."""


class Netweave(click.Group):
    """The command ``netweave``, whose help lists its commands by section, each with a whole sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        longest = max(len(name) for name in self.commands)
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                rows = [
                    (f"{one.name:{longest}}", one.get_short_help_str(limit=UNSHORTENED)) for one in commands
                ]
                formatter.write_dl(rows)


@click.group(
    cls=Netweave,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="netweave", message="%(prog)s %(version)s")
@click.pass_context
def netweave(context: click.Context) -> None:
    """Read, compare, run, convert and train neural nets without their original framework.

    Name a net as FILE or FILE,WEIGHTS. Netweave finds weights beside the file under their usual name
    (det1.prototxt and det1.caffemodel, det1-symbol.json and det1-0001.params).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in COMMANDS:
    netweave.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``netweave`` and exit.

    Args:
        arguments: The arguments after ``netweave``; by default those of the process.
    """
    if COMPLETE in os.environ:
        from netweave.cli.console import complete

        sys.exit(complete(netweave, COMPLETE))
    given = list(sys.argv[1:] if arguments is None else arguments)
    message = ""
    if arguments is None:
        _spare_collector(given)
        defer()
    try:
        with _output_errors():
            status = _run(given)
    except click.ClickException as error:
        message, status = _wrong_call(error), BAD_CALL
        _complain(message)
    except NetweaveError as error:
        message, status = str(error), GROUP_LOST if isinstance(error, PeerError) else BAD_CALL
        if not leave_error(message):
            _complain(message)
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # so that the interpreter does not write to it once more when it ends
        status = UNREAD
    if status and is_rank():
        if status == BAD_CALL and given[:1] == ["train"]:
            from netweave.api.jobs import announce_early_failure

            announce_early_failure(message)
        leave_at_once(status)
    sys.exit(status)


def _spare_collector(arguments: Sequence[str]) -> None:
    """Let this process end without a search for cycles in its nets, which takes a second of 20,000 nodes."""
    if arguments and arguments[0] in {command.name for command in SHORT_LIVED}:
        gc.disable()
        atexit.register(gc.freeze)  # the interpreter searches once more when it ends


def _run(arguments: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a sign that the terminal lacks is no reason to fail
    # not by click's own main(), which answers a closed pipe with status 1: that means "different" here
    try:
        with netweave.make_context("netweave", arguments, obj=tuple(arguments)) as context:
            status = netweave.invoke(context)
    except click.exceptions.Exit as left:
        status = left.exit_code
    sys.stdout.flush()
    return status or 0


@contextmanager
def _output_errors() -> Iterator[None]:
    """Raise a WriteError where standard output cannot be written; files raise their own."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        output, sys.stdout = sys.stdout, None  # so that the interpreter does not write to it when it ends
        with writing("standard output"):
            output.write("\n")
            output.flush()
        raise


def _wrong_call(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context else ""
    return error.format_message().rstrip(".") + hint


def _complain(message: str) -> None:
    from netweave.graph.printable import printable

    line = printable(" ".join(message.splitlines()))
    click.echo(f"{click.style('netweave:', fg='red', bold=True)} {line}", err=True)

"""Output on the console: tables, progress, JSON and completion."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)
from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from netweave.files.output_files import write_file
from netweave.graph.printable import printable
from netweave.graph.summary import settings_texts

if TYPE_CHECKING:
    import click
    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.status import Status


PIPE_WIDTH = 100
"""Columns where no terminal sets them: logs, mails and pages of CI show as many."""


class PlainConsole(Console):
    """A console that shows text as it is: no markup, and control characters written out."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make rich's Text of a string; here, before anything measures its width."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Give the pieces of what is to be printed, also of a Text that was not made by ``render_str``."""
        for segment in super().render(renderable, options):
            # rich's own controls, which move the cursor of a progress bar, are not text
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def output_console() -> Console:
    """Return the console on standard output: as wide as the terminal; in a pipe, as ``PIPE_WIDTH``."""
    console = PlainConsole()
    if not console.is_terminal:
        console.file = cast("TextIO", _WithoutTrailingBlanks(console.file))
        if "COLUMNS" not in os.environ:
            console.width = PIPE_WIDTH
    return console


class _WithoutTrailingBlanks:
    """A stream that takes text without the blanks that fill a table's last column."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write whole lines; rich never ends a call in the middle of one."""
        return self._stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        """Hand on what is held back."""
        self._stream.flush()

    def isatty(self) -> bool:
        """It is no terminal."""
        return False


class _LineBelowHead(Box):
    """A table with nothing but a line below its head: drawn on a terminal, of hyphens elsewhere."""

    def substitute(self, options: ConsoleOptions, safe: bool = True) -> Box:
        """Return what rich draws a table with."""
        return super().substitute(options, safe=safe) if options.is_terminal else _HYPHENS


LINE_BELOW_HEAD = _LineBelowHead(str(SIMPLE_HEAD))
"""The form of every table."""

_HYPHENS = Box(str(SIMPLE_HEAD).replace("─", "-"), ascii=True)


@contextmanager
def working(what: str) -> Iterator[Status]:
    """Show on standard error that something is being done, if that is a terminal."""
    with PlainConsole(stderr=True).status(what, spinner_style="cyan") as status:
        yield status


def write_json(value: Mapping[str, Any], file: str) -> None:
    """Write a result for machines.

    Args:
        value: JSON values; numbers that JSON lacks (nan, inf) become strings.
        file: Name of the file; ``-`` for standard output.

    Raises:
        WriteError: The file cannot be written; the old one is untouched.
    """
    try:
        text = _indented(value) + "\n"
    except ValueError:  # a number that JSON lacks
        text = _indented(_finite(value)) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    write_file(file, text)


_one_line = json.JSONEncoder(allow_nan=False).encode


def _indented(value: Any, margin: str = "\n") -> str:
    """Return JSON with a line for each key and for each row of a list.

    The standard library's encoder that indents is written in Python, and takes ten times as long.
    """
    inner = margin + " "
    if isinstance(value, dict) and value:
        rows = [f"{_one_line(str(key))}: {_indented(item, inner)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(rows) + margin + "}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return "[" + inner + f",{inner}".join(map(_one_line, value)) + margin + "]"
    return _one_line(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


class _FilesOtherwise(ShellComplete):
    """Completes the names of files where click has nothing to offer: nets are given as plain text."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what can stand in the place of the incomplete word."""
        return super().get_completions(args, incomplete) or [CompletionItem(incomplete, type="file")]


class _Bash(_FilesOtherwise, BashComplete):
    pass


class _Fish(_FilesOtherwise, FishComplete):
    pass


class _Zsh(_FilesOtherwise, ZshComplete):
    pass


def complete(command: click.Command, variable: str) -> int:
    """Answer the shell that set an environment variable, and return the exit status."""
    for shell in (_Bash, _Fish, _Zsh):
        add_completion_class(shell)
    return shell_complete(command, {}, "netweave", variable, os.environ[variable])


def settings_text(settings: Mapping[str, Any]) -> Text:
    """Return the settings that matter as ``name=value``, as written."""
    pairs = (Text.assemble((f"{name}=", "dim"), value) for name, value in settings_texts(settings))
    return Text(" ").join(pairs)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many batches of how many are done, if standard error is a terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=PlainConsole(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)

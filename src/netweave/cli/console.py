"""Where commands write: people's output, machines' output, and signs of life."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.status import Status

PIPE_WIDTH = 2000
"""Columns where no terminal sets them: a row of a table stays one line, whole, for grep."""


def output_console() -> Console:
    """Return the console on standard output: as wide as the terminal, or as needed in a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
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


def in_lines(console: Console) -> bool:
    """Whether a row is to be one line, whatever its length."""
    return console.width >= PIPE_WIDTH


@contextmanager
def working(what: str) -> Iterator[Status]:
    """Show on standard error that something is being done, if that is a terminal."""
    with Console(stderr=True, highlight=False, markup=False).status(what, spinner_style="cyan") as status:
        yield status


def write_json(value: Mapping[str, Any], file: str) -> None:
    """Write a result for machines.

    Args:
        value: JSON values; numbers that JSON lacks (nan, inf) become strings.
        file: Name of the file; ``-`` for standard output.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    except ValueError:  # a number that JSON lacks
        text = json.dumps(_finite(value), indent=1, allow_nan=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="ascii")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from error


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value

"""Code blocks of Markdown pages: run, with their output written in or compared.

A ``console`` block holds commands after ``$`` and what they print; a ``python`` block that a ``text``
block follows prints that text. They run one after the other in a folder with a copy of the examples.
Blocks of other languages are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDTH = "92"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)

PROGRAMS = {"netweave": [sys.executable, "-m", "netweave"], "python": [sys.executable]}
"""What commands in pages may start."""

VOLATILE = (
    (re.compile(r"\d+\.\d+(\s|&#160;)s\b"), "_ s"),  # first: a 0 of "0.0 s" is no rounding error
    (re.compile(r"\b(0|\d(\.\d+)?e-(0[5-9]|[1-9]\d))(?![\w.])"), "~0"),
    (re.compile(r"\s+"), " "),
)
"""What differs from machine to machine: rounding errors, times, and the spaces that follow from them."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block that runs.

    Attributes:
        line: Where it starts, from 1.
        language: ``console`` or ``python``.
        code: What is between the fences.
        output: The ``text`` block after a ``python`` block, or empty.
        span: Where it stands in the page.
    """

    line: int
    language: str
    code: str
    output: str
    span: tuple[int, int]


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks that run."""
    for match in BLOCK.finditer(page):
        language, code, output = match.groups(default="")
        yield Block(page[: match.start()].count("\n") + 1, language, code, output, match.span())


class Shell:
    """Runs blocks one after the other in a folder with a copy of the examples."""

    def __init__(self, folder: Path, root: Path) -> None:
        written = shutil.ignore_patterns(
            "*.caffemodel", "*.params", "mended-*", "*_lmdb", "snapshots", "*.onnx", "__pycache__"
        )
        shutil.copytree(root / "examples", folder / "examples", ignore=written)
        self._folder = folder
        self._environment = os.environ | {
            "COLUMNS": WIDTH,
            "NO_COLOR": "1",
            "PYTHONPATH": os.environ.get("NWSRC") or str(root / "src"),
        }
        self._status = 0

    def refreshed(self, page: str) -> str:
        """Run a page's blocks and return the page with what they print.

        Raises:
            SystemExit: A block of Python fails.
        """
        parts, end = [], 0
        for block in blocks(page):
            run = self._python if block.language == "python" else self._console
            parts += [page[end : block.span[0]], run(block)]
            end = block.span[1]
        return "".join((*parts, page[end:]))

    def _python(self, block: Block) -> str:
        printed = self._output([sys.executable, "-c", block.code])
        if self._status:
            raise SystemExit(f"line {block.line}: {printed}")
        after = f"\n```text\n{printed}```\n" if printed or block.output else ""
        return f"```python\n{block.code}```\n{after}"

    def _console(self, block: Block) -> str:
        commands = [line for line in block.code.splitlines() if line.startswith("$ ")]
        printed = (f"{line}\n{self._command(line.removeprefix('$ '))}" for line in commands)
        return f"```console\n{''.join(printed)}```\n"

    def _command(self, line: str) -> str:
        if line == "echo $?":
            return f"{self._status}\n"
        program, *arguments = shlex.split(line, comments=True)
        if program == "cd":
            self._folder /= arguments[0]
            return ""
        return self._output([*PROGRAMS[program], *arguments])

    def _output(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        self._status = done.returncode
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def stable(text: str) -> str:
    """Return a page without what differs from machine to machine."""
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    return text

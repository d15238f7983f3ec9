"""Values, comments and numbers as Python writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from netweave.graph import Graph

WIDTH = 100
"""Lines with a comment end here."""


def literal(value: Any) -> str:
    """Return a value as Python writes it."""
    return number(value) if isinstance(value, float) else repr(value)


def commented(line: str, layers: Sequence[str]) -> str:
    """Return a line with the source's names behind it, as many as fit; names may hold anything."""
    names = ["".join(c if c.isprintable() else "?" for c in name) for name in dict.fromkeys(layers) if name]
    more = ""
    while names:
        full = f"{line}  # {', '.join(names)}{more}"
        if len(full) <= WIDTH:
            return full
        names.pop()
        more = ", ..."
    return line


def wrapped(line: str) -> list[str]:
    """Return a line, or several if it is too long for one and is a call, or a part of what one gives.

    Arguments have a line of their own, and more where that is too long; a text among them is not broken.

    >>> wrapped("x = f(1)")
    ['x = f(1)']
    """
    broken = _broken_call(line)
    if len(line) <= WIDTH or broken is None:
        return [line]
    start, end = broken
    indent = " " * (len(line) - len(line.lstrip()))
    inner = f"{indent}    {line[start + 1 : end]}"
    has_text = '"' in inner or "'" in inner
    return [line[: start + 1], *([inner] if has_text else _filled(inner)), f"{indent}{line[end:]}"]


def _broken_call(line: str) -> tuple[int, int] | None:
    """Return the brackets of the call that a line is: of two calls, ``f(1)(x)``, the last one that fits."""
    start = line.find("(")
    depths = [*accumulate((c == "(") - (c == ")") for c in line)]
    end = depths.index(0, start) if start >= 0 and 0 in depths[start:] else -1
    if end < 0:
        return None
    if line[end + 1 : end + 2] == "(" and line.endswith(")") and 0 not in depths[end + 1 : -1]:
        return (end + 1, len(line) - 1) if end + 1 < WIDTH else (start, end)
    return (start, end) if _PICKED.fullmatch(line, end + 1) else None


def _filled(line: str) -> list[str]:
    """Return what stands within brackets, where a line may end at any space."""
    indent = " " * (len(line) - len(line.lstrip()))
    return wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


_PICKED = re.compile(r"(\[\d+\])?")


def number(value: Any) -> str:
    """Return a number as Python writes it, with no more digits than its type holds.

    >>> number(np.float32(0.1)), number(np.int64(3)), number(np.float32(2))
    ('0.1', '3', '2.0')
    """
    if isinstance(value, float):
        return number(np.float32(value))
    if not isinstance(value, np.generic):
        return repr(value)
    if not isinstance(value, np.floating):
        return str(value.item())
    if not np.isfinite(value):
        return f'float("{value.item()}")'
    small = abs(value) < 1e-4 and value != 0
    return (
        np.format_float_scientific(value, trim="-") if small else np.format_float_positional(value, trim="0")
    )


def printable(text: str) -> str:
    """Return a text without what could end a docstring: quotes, backslashes, control characters."""
    return "".join(c for c in text if c.isprintable() and c not in '"\\')


def file_name(graph: Graph) -> str:
    """Return the name of the file that a graph was read from, for a docstring."""
    return printable(graph.files[0].rpartition("/")[2] if graph.files else graph.name)

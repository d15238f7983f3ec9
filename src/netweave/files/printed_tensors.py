"""Tensors that llama.cpp's ``eval-callback`` prints: their sizes, and the values at their ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError

# The text is that of ``common_debug_print_tensor`` in llama.cpp's common/debug.cpp: a line with the name, the
# type, the operation and the sizes, innermost first; then nested brackets with four digits behind the point.

HEAD = re.compile(r"\w+:\s+(\S.*?) = \((\w+)\)\s[^=]*= \{(\d+), (\d+), (\d+), (\d+)\}\s*$")
"""A line such as ``ggml_debug: norm-0 = (f32) RMS_NORM(inp_embd{64, 5, 1, 1}, }) = {64, 5, 1, 1}``."""

TOKEN = re.compile(r"\[|\]|\.\.\.|[-+]?(?:\d+\.\d+|nan|inf)")

MAX_ELEMENTS = 1 << 26
"""Elements of the largest tensor that room is made for."""


def read_printed_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors in a text by name, as float32; what is not printed is NaN.

    A name that is printed again ends in ``#1``, as with ``capture``. Leading sizes of 1 are left out.

    Raises:
        ReadError: The text holds no tensor.
    """
    arrays: dict[str, np.ndarray] = {}
    counts: dict[str, int] = {}
    lines = path.read_text(errors="replace").splitlines()
    heads = [(place, match) for place, line in enumerate(lines) if (match := HEAD.search(line))]
    ends = [place for place, _ in heads[1:]] + [len(lines)]
    for (place, head), end in zip(heads, ends, strict=False):
        shape = tuple(int(size) for size in reversed(head.groups()[2:]))
        name, kind = head[1], head[2]
        if not kind.startswith(("f", "bf")) or not 0 < np.prod(shape, dtype=np.int64) <= MAX_ELEMENTS:
            continue
        x = np.full(shape, np.nan, np.float32)
        for index, block in enumerate(_nested(lines[place + 1 : end])[: shape[0]]):
            _fill(x[index], block)
        counts[name] = counts.get(name, -1) + 1
        again = f"#{counts[name]}" if counts[name] else ""
        arrays[name + again] = x.reshape(_without_ones(shape))
    if not arrays:
        raise ReadError("holds no tensors as llama-eval-callback prints them", place=str(path))
    return arrays


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((place for place, size in enumerate(shape) if size != 1), len(shape) - 1)
    return shape[first:]


def _nested(lines: Sequence[str]) -> list[Any]:
    """Return what stands in brackets, as lists of numbers and ``...``."""
    stack: list[list[Any]] = [[]]
    for line in lines:
        if line.strip().startswith("sum"):
            continue
        for token in TOKEN.findall(line):
            if token == "[":
                stack.append([])
            elif token == "]" and len(stack) > 1:
                inner = stack.pop()
                stack[-1].append(inner)
            elif token != "]":
                stack[-1].append(... if token == "..." else float(token))
    return [item for item in stack[0] if isinstance(item, list)]


def _fill(x: np.ndarray, items: Sequence[Any]) -> None:
    """Put nested values where they belong: those behind ``...`` at the end."""
    for index, item in _places(items, len(x)):
        if isinstance(item, list) and x.ndim > 1:
            _fill(x[index], item)
        elif isinstance(item, float) and x.ndim == 1:
            x[index] = item


def _places(items: Sequence[Any], size: int) -> Iterator[tuple[int, Any]]:
    first = items.index(...) if ... in items else len(items)
    yield from enumerate(items[: min(first, size)])
    last = items[first + 1 :]
    if len(last) <= size:
        yield from enumerate(last, size - len(last))

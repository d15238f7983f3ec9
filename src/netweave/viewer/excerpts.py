"""The lines of a source file in which a layer stands."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.graph import Layer

MAX_LINES = 24
"""Lines of one layer that are shown."""

MAX_COLUMNS = 160
"""Characters of a line that are shown."""

MAX_BYTES = 50_000_000
"""Size from which on a file is not read again for the sake of its lines."""


def excerpts(layers: Iterable[Layer]) -> dict[str, str]:
    """Return the text of each layer that stands at a line of a file, by layer key.

    A file that is gone, or too large, has none: the page says where the layer stands all the same.
    """
    placed: dict[str, list[tuple[int, str]]] = {}
    for layer in layers:
        if layer.origin is not None and layer.origin.line is not None:
            placed.setdefault(layer.origin.file, []).append((layer.origin.line, layer.key))
    texts: dict[str, str] = {}
    for file, places in placed.items():
        lines = _lines(Path(file))
        begins = sorted({line for line, _ in places})
        for line, key in places:
            following = bisect_right(begins, line)
            end = begins[following] - 1 if following < len(begins) else len(lines)
            text = excerpt(lines[line - 1 : end])
            if text:
                texts[key] = text
    return texts


def excerpt(lines: Sequence[str]) -> str:
    r"""Return the first lines, until the brackets that they open are closed, without their indentation.

    >>> excerpt(["  layer {", '    name: "a"  # {', "    pool { pad: 1 }", "  }", "# next"])
    'layer {\n  name: "a"  # {\n  pool { pad: 1 }\n}'
    """
    taken: list[str] = []
    depth = 0
    for line in islice(lines, MAX_LINES):
        taken.append(line.rstrip()[:MAX_COLUMNS])
        code = line.partition("#")[0]
        depth += sum(code.count(mark) for mark in "{[(") - sum(code.count(mark) for mark in ")]}")
        if depth <= 0 and any(mark in code for mark in ")]}"):
            break
    return textwrap.dedent("\n".join(taken)).strip("\n")


def _lines(file: Path) -> list[str]:
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []

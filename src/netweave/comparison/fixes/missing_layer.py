"""A layer that only A has, copied into B's text where both are written in the same format.

Layers of Caffe that work in place, with the same blob at bottom and top, can be put in alone. So can a line
of Python where the texts around it are the same.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from netweave.comparison.fixes.prototxt import find_layers
from netweave.comparison.fixes.text import NotAppliedError, Replacement, line_end, replaced

if TYPE_CHECKING:
    from netweave.comparison.fixes.prototxt import LayerText


def copy_layer(text_a: str, text_b: str, name: str) -> str:
    """Return B's text with a layer of A put behind the layer that it follows in A.

    Raises:
        NotAppliedError: The layer does not work in place, or B does not have the layer that it follows.
    """
    layers_a, layers_b = find_layers(text_a), find_layers(text_b)
    place = next((n for n, layer in enumerate(layers_a) if layer.name == name), None)
    if place is None:
        raise NotAppliedError(f"the first net's file has no layer {name!r}")
    layer = layers_a[place]
    if len(layer.bottoms) != 1 or layer.bottoms != layer.tops:
        raise NotAppliedError(f"{name} does not work in place, so that other layers would have to change too")
    if any(other.name == name for other in layers_b):
        raise NotAppliedError(f"the file has another layer called {name!r}")
    before = next((other for other in layers_a[:place][::-1] if layer.bottoms[0] in other.tops), None)
    host = _counterpart(before, layers_b, layer.bottoms[0])
    block = text_a[layer.start : layer.end].replace("\r\n", "\n").replace("\n", line_end(text_b))
    return replaced(text_b, [Replacement(host.end, host.end, line_end(text_b) + block)])


def _counterpart(before: LayerText | None, layers: list[LayerText], blob: str) -> LayerText:
    """Return B's layer of the same name that makes the same blob."""
    names = {before.name} if before is not None else set()
    found = next((layer for layer in layers if layer.name in names and blob in layer.tops), None)
    if found is None:
        raise NotAppliedError(f"the file has no layer that makes {blob!r} as the first net's does")
    return found


def copy_line(text_a: str, text_b: str, line: int) -> str:
    """Return B's text with a line of A where A has it, in place of the one line that B has there, if any.

    Args:
        text_a: Python source.
        text_b: Python source.
        line: The line of A's text, from 1.

    Raises:
        NotAppliedError: The texts are not the same around the line, B has the line, or lacks what it uses.
    """
    lines_a, lines_b = text_a.splitlines(), text_b.splitlines()
    stretches = SequenceMatcher(None, lines_a, lines_b, autojunk=False).get_opcodes()
    kind, a, a_end, b, b_end = next(stretch for stretch in stretches if line <= stretch[2])
    if kind == "equal":
        raise NotAppliedError(f"the file has the first net's line {line} already")
    if a_end - a != 1 or b_end - b > 1:
        raise NotAppliedError(f"the two files are not the same around line {line} of the first net's")
    used = set(re.findall(r"\bself\.\w+", lines_a[a]))
    if unknown := sorted(name for name in used if not re.search(rf"\b{re.escape(name)}\b", text_b)):
        raise NotAppliedError(f"line {line} of the first net's file needs {', '.join(unknown)}")
    lines_b[b:b_end] = lines_a[a:a_end]
    end = line_end(text_b)
    return end.join(lines_b) + (end if text_b.endswith("\n") else "")

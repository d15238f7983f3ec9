"""Settings of sections in Darknet's ``.cfg``: lines of ``name=value`` below ``[section]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from netweave.comparison import INPUT_ORDER, Edit
from netweave.comparison.fixes.text import NotAppliedError, in_order_of, line_end, permuted, start_of_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE = re.compile(r"(?P<before>\s*(?P<name>[\w-]+)\s*=\s*)(?P<value>[^#;\r\n]*?)(?P<after>\s*(?:[#;].*)?)$")


def edit_cfg(text: str, line: int, layer: str, edits: Sequence[Edit]) -> str:
    """Return a text with settings of the section at a line changed.

    Raises:
        NotAppliedError: No section begins at the line.
    """
    start_of_line(text, line)
    end = line_end(text)
    lines = text.split(end)
    if not lines[line - 1].lstrip().startswith("["):
        raise NotAppliedError(f"no section begins at line {line}; it is not the file that was compared")
    stop = next((n for n in range(line, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
    if any(edit.name == "padding" for edit in edits):
        # a convolution with pad=1 takes half its size, whatever its padding (parser.c)
        edits = [*edits, *_without_pad(lines[line:stop])]
    for edit in edits:
        settings = [(n, match) for n in range(line, stop) if (match := _LINE.match(lines[n]))]
        if edit.name == INPUT_ORDER:
            _reorder(lines, settings, in_order_of(edit))
            continue
        own = [(n, match) for n, match in settings if match["name"] == edit.name]
        if own:
            n, match = own[-1]  # the last one counts
            lines[n] = f"{match['before']}{edit.value}{match['after']}"
        else:
            place = settings[-1][0] + 1 if settings else line
            lines.insert(place, f"{edit.name}={edit.value}")
            stop += 1
    return end.join(lines)


def _without_pad(lines: Sequence[str]) -> list[Edit]:
    settings = {match["name"]: match["value"] for line in lines if (match := _LINE.match(line))}
    return [Edit("pad", "0")] if settings.get("pad", "0").strip() not in {"", "0"} else []


def _reorder(lines: list[str], found: Sequence[tuple[int, re.Match[str]]], order: Sequence[int]) -> None:
    """Put the layers that a section joins in another order."""
    own = [(n, match) for n, match in found if match["name"] == "layers"]
    if not own:
        raise NotAppliedError("the section does not name the layers that it joins")
    n, match = own[-1]
    layers = [item.strip() for item in match["value"].split(",")]
    lines[n] = f"{match['before']}{','.join(permuted(layers, order))}{match['after']}"

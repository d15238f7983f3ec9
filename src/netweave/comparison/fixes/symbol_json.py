"""Settings of nodes in MXNet's symbols: strings in a node's ``attrs``, whose text is kept as it stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from netweave.comparison import INPUT_ORDER
from netweave.comparison.fixes.text import NotAppliedError, Replacement, in_order_of, permuted, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.comparison import Edit

_decoder = json.JSONDecoder()

ATTRIBUTES = ("attrs", "attr", "param")
"""Where a node keeps its settings, in files of MXNet 1, 0.9 and before."""


def edit_symbol(text: str, line: int, layer: str, edits: Sequence[Edit]) -> str:
    """Return a text with settings of a node changed; nodes are found by name, which is unique.

    Raises:
        NotAppliedError: There is no such node.
    """
    start, _ = _node(text, layer)
    members = {key: (begin, stop) for key, begin, stop in members_of(text, start)}
    changes: list[Replacement] = []
    for edit in [edit for edit in edits if edit.name == INPUT_ORDER]:
        places = list(items_of(text, members["inputs"][0]))
        names = permuted([text[begin:stop] for begin, stop in places], in_order_of(edit))
        changes += [Replacement(*place, name) for place, name in zip(places, names, strict=True)]
    for edit in [edit for edit in edits if edit.name == "op"]:  # the operator stands beside its settings
        changes.append(Replacement(*members["op"], json.dumps(edit.value)))
    edits = [edit for edit in edits if edit.name not in {INPUT_ORDER, "op"}]
    if not edits:
        return replaced(text, changes)
    holder = next((members[key] for key in ATTRIBUTES if key in members), None)
    if holder is None:
        inside = ", ".join(f"{json.dumps(e.name)}: {json.dumps(e.value)}" for e in edits)
        return replaced(text, [*changes, Replacement(start + 1, start + 1, f'"attrs": {{{inside}}}, ')])
    settings = {key: (begin, stop) for key, begin, stop in members_of(text, holder[0])}
    added = []
    for edit in edits:
        value = json.dumps(edit.value)
        if edit.name in settings:
            changes.append(Replacement(*settings[edit.name], value))
        else:
            added.append(f"{json.dumps(edit.name)}: {value}")
    if added and settings:
        end = max(stop for _, stop in settings.values())
        first = min(begin for begin, _ in settings.values())
        opening = text[holder[0] + 1 : first]
        blank = opening[: len(opening) - len(opening.lstrip())] or " "  # one a line, or all in one
        changes.append(Replacement(end, end, "".join(f",{blank}{item}" for item in added)))
    elif added:
        changes.append(Replacement(holder[0] + 1, holder[0] + 1, ", ".join(added)))
    return replaced(text, changes)


def _node(text: str, name: str) -> tuple[int, int]:
    """Return where a node begins and ends."""
    try:
        top = {key: begin for key, begin, _ in members_of(text, text.index("{"))}
        for begin, end in items_of(text, top["nodes"]):
            if json.loads(text[begin:end]).get("name") == name:
                return begin, end
    except (KeyError, ValueError, AttributeError) as error:
        raise NotAppliedError(f"the file is no symbol: {error}") from error
    raise NotAppliedError(f"the file has no node {name!r}; it is not the one that was compared")


def members_of(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield the key of each member of an object, and where its value begins and ends."""
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, at = _decoder.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)
        _, at = _decoder.raw_decode(text, begin)
        yield key, begin, at
        at = _comma(text, at)


def items_of(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where each item of a list begins and ends."""
    at = _skip(text, start + 1)
    while text[at] != "]":
        _, end = _decoder.raw_decode(text, at)
        yield at, end
        at = _comma(text, end)


def _comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at

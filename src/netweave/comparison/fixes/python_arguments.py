"""The arguments of a call in Python source: what each is given, and how one is changed or added."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from netweave.comparison.fixes.signatures import FORMER_NAMES, position, takes
from netweave.comparison.fixes.text import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison import Edit
    from netweave.comparison.fixes.python_source import Places


def takes_argument(call: ast.Call, name: str) -> bool:
    """Return whether a call is known to take an argument that may be written there.

    What stands in a list or dictionary that is unpacked is not known: it may be the argument.
    """
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    is_unpacked = any(keyword.arg is None for keyword in call.keywords)
    return argument_of(call, name) is not None or (not is_unpacked and takes(callee(call), name))


def callee(call: ast.Call) -> str:
    """Return the last part of what is called: ``Conv2d`` of ``nn.Conv2d(...)``."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def argument_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return what an argument is given, by name or by position; None if it is not given."""
    names = {name, FORMER_NAMES.get((callee(call), name), name)}
    named = next((keyword.value for keyword in call.keywords if keyword.arg in names), None)
    place = position(callee(call), name)
    if named is not None or place is None:
        return named
    return call.args[place] if place < len(call.args) else None


def argument_changes(call: ast.Call, edits: Sequence[Edit], places: Places) -> list[Replacement]:
    """Return the changes that give a call other arguments; those that it is not given yet go to the end."""
    given = [(edit, argument_of(call, edit.name)) for edit in edits]
    changes = [Replacement(*places.of(value), edit.value) for edit, value in given if value is not None]
    added = [f"{edit.name}={edit.value}" for edit, value in given if value is None]
    return [*changes, *(added_arguments(call, added, places) if added else [])]


def added_arguments(call: ast.Call, words: Sequence[str], places: Places) -> list[Replacement]:
    """Return the changes that write arguments behind the others, on a line of their own if those have it."""
    end = places.of(call)[1] - 1
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = max(map(places.of, given), key=lambda ends: ends[1], default=None)
    if last is None:
        return [Replacement(end, end, ", ".join(words))]
    # brackets around the last argument, a comma, comments
    rest = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), places.between(last[1], end))
    stop = last[1] + len(rest.rstrip())
    has_comma = rest.rstrip().endswith(",")
    if "\n" not in places.between(stop, end):
        return [Replacement(stop, stop, f"{' ' if has_comma else ', '}{', '.join(words)}")]
    own_line = places.line_start(end)
    indent = re.match(r"\s*", places.between(places.line_start(last[0]), last[0]))
    before = indent[0] if indent is not None else ""
    line_end = "\r\n" if places.between(own_line - 2, own_line) == "\r\n" else "\n"
    lines = f",{line_end}".join(f"{before}{word}" for word in words)
    behind = Replacement(own_line, own_line, f"{lines}{',' if has_comma else ''}{line_end}")
    return [behind] if has_comma else [Replacement(stop, stop, ","), behind]

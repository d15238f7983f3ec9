"""Settings of layers in Python source: arguments of the call that makes the layer, at the recorded line."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from netweave.comparison import INPUT_ORDER
from netweave.fixes.signatures import BY_NAME, POSITIONS
from netweave.fixes.text import NotAppliedError, Replacement, replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison import Edit

JOINING = frozenset({"cat", "concat", "concatenate"})
"""Functions of PyTorch, Chainer, Keras and NumPy whose first argument lists what they join."""


def edit_python(text: str, line: int, layer: str, edits: Sequence[Edit]) -> str:
    """Return a text with arguments of the call at a line changed.

    Raises:
        NotAppliedError: The file is no Python, or which call makes the layer is not clear.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotAppliedError(f"the file is no Python that can be changed: {error}") from error
    places = _Places(text)
    order = next((edit.value for edit in edits if edit.name == INPUT_ORDER), None)
    if order is not None:
        if len(edits) > 1:
            raise NotAppliedError("the order of what is joined, and settings besides: change one by hand")
        return replaced(text, _reordered(tree, line, [int(place) for place in order.split(",")], places))
    call = _call(tree, line, layer, edits)
    changes = [change for edit in edits if (change := _change(call, edit, places)) is not None]
    added = ", ".join(f"{edit.name}={edit.value}" for edit in edits if _value(call, edit.name) is None)
    end = places.of(call)[1] - 1
    # behind a comma that ends the arguments, or in empty brackets, there is no further comma
    for words in (f", {added}", added) if added else ("",):
        changed = replaced(text, [*changes, Replacement(end, end, words)])
        if _is_python(changed):
            return changed
    raise NotAppliedError(f"the arguments at line {line} are written in a way that cannot be changed safely")


def _reordered(tree: ast.Module, line: int, order: Sequence[int], places: _Places) -> list[Replacement]:
    """Return the changes that put what a call at a line joins in another order, counted from 1."""
    joining = [
        call.args[0]
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and call.lineno <= line <= (call.end_lineno or call.lineno)
        and call.args
        and _callee(call) in JOINING
    ]
    if len(joining) != 1 or not isinstance(joining[0], ast.Tuple | ast.List):
        raise NotAppliedError(f"no call at line {line} lists what it joins; change the order by hand")
    parts = joining[0].elts
    if any(isinstance(part, ast.Starred) for part in parts):
        raise NotAppliedError(f"line {line} joins a list whose length the text does not say")
    if len(parts) != len(order):
        raise NotAppliedError(f"line {line} has {len(parts)} inputs in the file and {len(order)} in the net")
    texts = [places.text(part) for part in parts]
    return [Replacement(*places.of(part), texts[place - 1]) for part, place in zip(parts, order, strict=True)]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _call(tree: ast.Module, line: int, layer: str, edits: Sequence[Edit]) -> ast.Call:
    """Return the innermost call at a line that takes the arguments."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    taking = [call for call in calls if all(_takes(call, edit.name) for edit in edits)]
    names = ", ".join(edit.name for edit in edits)
    if not taking or any(_is_call_of(call, _attribute(layer)) for call in calls):
        # the line is that of the call in forward; the settings stand where the module is made
        made = _module(tree, layer)
        taking = [made] if made is not None and all(_takes(made, edit.name) for edit in edits) else []
    if not taking:
        raise NotAppliedError(f"no call at line {line} is known to take {names}")
    inner = [call for call in taking if not any(_holds(call, other) for other in taking)]
    assigned = [call for call in inner if layer.rpartition(".")[2] in _targets(tree, call)]
    chosen = inner if len(inner) == 1 else assigned
    if len(chosen) != 1:
        raise NotAppliedError(f"line {line} has {len(inner)} calls that take {names}")
    return chosen[0]


def _module(tree: ast.Module, layer: str) -> ast.Call | None:
    """Return the call whose value is the module of a name: ``conv1``, or ``features.3`` in a Sequential.

    None if there is none, or several, as in classes of blocks with the same names.
    """
    place, attribute = layer.rpartition(".")[2], _attribute(layer)
    made = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(isinstance(target, ast.Attribute) and target.attr == attribute for target in node.targets)
    ]
    if len(made) != 1:
        return None
    (call,) = made
    assert isinstance(call, ast.Call)
    if not place.isdecimal():
        return call
    inner = call.args[int(place)] if int(place) < len(call.args) else None
    return inner if isinstance(inner, ast.Call) and _callee(call) == "Sequential" else None


def _is_call_of(call: ast.Call, attribute: str) -> bool:
    """Whether a call is ``self.ATTRIBUTE(...)``."""
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == attribute
        and isinstance(function.value, ast.Name)
        and function.value.id == "self"
    )


def _attribute(layer: str) -> str:
    """Return the attribute that holds the module of a name, or the Sequential that it stands in."""
    owner, _, place = layer.rpartition(".")
    return (owner.rpartition(".")[2] if place.isdecimal() else place) or layer


def _takes(call: ast.Call, name: str) -> bool:
    callee = _callee(call)
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    given = any(keyword.arg == name for keyword in call.keywords)
    return given or name in POSITIONS.get(callee, ()) or name in BY_NAME.get(callee, frozenset())


def _callee(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _holds(outer: ast.Call, inner: ast.Call) -> bool:
    return outer is not inner and any(node is inner for node in ast.walk(outer))


def _targets(tree: ast.Module, call: ast.Call) -> set[str]:
    """Return the names that the value of a call is given: ``conv1`` in ``self.conv1 = ...``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
            found |= {t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "") for t in node.targets}
    return found


def _value(call: ast.Call, name: str) -> ast.expr | None:
    """Return what an argument is given, by name or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positions = POSITIONS.get(_callee(call), ())
    place = positions.index(name) if name in positions else len(call.args)
    return call.args[place] if place < len(call.args) else None


def _change(call: ast.Call, edit: Edit, places: _Places) -> Replacement | None:
    value = _value(call, edit.name)
    if value is None:
        return None
    start, end = places.of(value)
    return Replacement(start, end, edit.value)


class _Places:
    """Characters of a text by the lines and UTF-8 columns that Python counts in."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def of(self, node: ast.expr) -> tuple[int, int]:
        """Return where a node begins and ends."""
        end = self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._place(node.lineno, node.col_offset), end

    def text(self, node: ast.expr) -> str:
        """Return what stands at a node's place."""
        start, end = self.of(node)
        return self._text[start:end]

    def _place(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

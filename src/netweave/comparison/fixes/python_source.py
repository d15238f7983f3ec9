"""Settings of layers in Python source: arguments of the call that makes the layer, at the recorded line."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from netweave.comparison import INPUT_ORDER, OPERATOR, OUTPUT
from netweave.comparison.fixes.python_arguments import argument_changes, callee, takes_argument
from netweave.comparison.fixes.python_arithmetic import ARITHMETIC, arithmetic_changes
from netweave.comparison.fixes.python_calls import is_named, operator_changes, order_changes
from netweave.comparison.fixes.python_places import Places
from netweave.comparison.fixes.python_returns import output_changes
from netweave.comparison.fixes.text import NotAppliedError, Replacement, SeveralCallsError, replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison import Edit


def edit_python(text: str, line: int, layer: str, edits: Sequence[Edit]) -> str:
    """Return a text with arguments of the call at a line changed.

    Raises:
        NotAppliedError: The file is no Python, or which call makes the layer is not clear.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotAppliedError(f"the file is no Python that can be changed: {error}") from error
    places = Places(text)
    moved = [edit for edit in edits if edit.name in {OPERATOR, INPUT_ORDER, OUTPUT}]
    if moved:
        if len(edits) > 1:
            raise NotAppliedError("what is called or joined, and settings besides: change one by hand")
        return replaced(text, _call_changes(tree, line, layer, moved[0], places))
    call = find_call(tree, line, layer, edits)
    changed = replaced(text, argument_changes(call, edits, places))
    if _is_python(changed):
        return changed
    raise NotAppliedError(f"the arguments at line {line} are written in a way that cannot be changed safely")


def edit_all_calls(text: str, line: int, kind: str, edits: Sequence[Edit]) -> str:
    """Return a text with all calls of a kind at a line changed, as they all make layers that are to change.

    Args:
        text: The text.
        line: The line.
        kind: The layers' type, which is the class that is called, or ends in the function.
        edits: What changes.

    Raises:
        NotAppliedError: There is no such call, or one does not take the arguments.
    """
    places = Places(text)
    calls = [call for call in _calls_at(ast.parse(text), line) if callee(call) == kind.rpartition(".")[2]]
    are_operators = [edit.name for edit in edits] == [OPERATOR]
    is_known = are_operators or all(takes_argument(call, edit.name) for call in calls for edit in edits)
    if not calls or not is_known or any(_holds(call, other) for call in calls for other in calls):
        raise NotAppliedError(f"line {line} has several calls, which are not all of {kind or 'one kind'}")
    if are_operators:
        return replaced(
            text, [row for call in calls for row in operator_changes([call], "", edits[0], places)]
        )
    return replaced(text, [row for call in calls for row in argument_changes(call, edits, places)])


def _call_changes(tree: ast.Module, line: int, layer: str, edit: Edit, places: Places) -> list[Replacement]:
    """Return the changes of what a line calls or returns, or of the order of what it gives."""
    if edit.name == OUTPUT:
        return output_changes(tree, line, edit, places)
    calls = _calls_at(tree, line)
    if edit.value in ARITHMETIC:
        return arithmetic_changes(tree, line, edit, places)
    if edit.name == INPUT_ORDER:
        return order_changes(tree, calls, line, edit, places)
    return operator_changes(calls, layer, edit, places)


def _calls_at(tree: ast.Module, line: int) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def find_call(tree: ast.Module, line: int, layer: str, edits: Sequence[Edit]) -> ast.Call:
    """Return the innermost call at a line that takes the arguments.

    Raises:
        NotAppliedError: There is none, or which one makes the layer is not clear.
    """
    calls = _calls_at(tree, line)
    taking = [call for call in calls if all(takes_argument(call, edit.name) for edit in edits)]
    names = ", ".join(edit.name for edit in edits)
    if not taking or any(_is_call_of(call, _attribute(layer)) for call in calls):
        # the line is that of the call in forward; the settings stand where the module is made
        made = _module(tree, layer)
        taking = [made] if made is not None and all(takes_argument(made, edit.name) for edit in edits) else []
    if not taking:
        raise NotAppliedError(f"no call at line {line} is known to take {names}")
    inner = [call for call in taking if not any(_holds(call, other) for other in taking)]
    assigned = [
        call for call in inner if layer.rpartition(".")[2] in _targets(tree, call) or is_named(call, layer)
    ]
    made = _module(tree, layer) if not assigned else None
    chosen = inner if len(inner) == 1 else assigned or [call for call in inner if call is made]
    if len(chosen) != 1:
        raise SeveralCallsError(f"line {line} has {len(inner)} calls that take {names}")
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
    return inner if isinstance(inner, ast.Call) and callee(call) == "Sequential" else None


def _is_call_of(call: ast.Call, attribute: str) -> bool:
    """Return whether a call is ``self.ATTRIBUTE(...)``."""
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


def _holds(outer: ast.Call, inner: ast.Call) -> bool:
    return outer is not inner and any(node is inner for node in ast.walk(outer))


def _targets(tree: ast.Module, call: ast.Call) -> set[str]:
    """Return the names that the value of a call is given: ``conv1`` in ``self.conv1 = ...``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
            found |= {t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "") for t in node.targets}
    return found

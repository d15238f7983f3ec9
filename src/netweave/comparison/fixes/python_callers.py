"""A setting that a function or class is given by whoever calls it, changed where it is called."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.fixes.python_source import Places, assigned_names, find_call, parameters_of
from netweave.comparison.fixes.signatures import added_arguments, argument_of, callee
from netweave.comparison.fixes.text import NotAppliedError, Replacement, replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison import Edit


@dataclass(frozen=True, slots=True)
class Passed:
    """A parameter that callers give a value for.

    Attributes:
        function: What they call: the function, or the class whose constructor it is.
        parameter: The parameter.
        position: Its place among the arguments of a call; None if it is given by name only.
    """

    function: str
    parameter: str
    position: int | None


def parameter_at(text: str, line: int, layer: str, edits: Sequence[Edit]) -> Passed | None:
    """Return the parameter that the call which makes a layer passes on as its setting; None if there is none.

    Args:
        text: The file.
        line: The line that makes the layer.
        layer: Name of the layer.
        edits: One setting of it.
    """
    tree = ast.parse(text)
    try:
        call = find_call(tree, line, layer, edits)
    except NotAppliedError:
        return None
    return _passed_on(tree, argument_of(call, edits[0].name))


def parameter_of_caller(text: str, line: int, passed: Passed) -> Passed | None:
    """Return the parameter that a call at a line passes on as another one's value; None if it passes none."""
    tree = ast.parse(text)
    call = _call_of(tree, line, passed)
    return _passed_on(tree, _given(call, passed)) if call is not None else None


def edit_caller(text: str, line: int, passed: Passed, value: str) -> str:
    """Return a text in which the call at a line gives a parameter another value.

    Raises:
        NotAppliedError: Which call it is is not clear, or it may be given the parameter otherwise.
    """
    call, places = _call_of(ast.parse(text), line, passed), Places(text)
    if call is None:
        raise NotAppliedError(
            f"which call at line {line} gives {passed.function} its {passed.parameter} is not clear"
        )
    given = _given(call, passed)
    if given is not None:
        return replaced(text, [Replacement(*places.of(given), value)])
    return replaced(text, added_arguments(call, [f"{passed.parameter}={value}"], places))


def _call_of(tree: ast.Module, line: int, passed: Passed) -> ast.Call | None:
    """Return the one call of a function at a line; None if there are several, or it unpacks arguments."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and callee(node) == passed.function
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if len(calls) != 1:
        return None
    (call,) = calls
    is_unpacked = any(isinstance(argument, ast.Starred) for argument in call.args)
    return None if is_unpacked or any(keyword.arg is None for keyword in call.keywords) else call


def _given(call: ast.Call, passed: Passed) -> ast.expr | None:
    """Return what a call gives for a parameter; None if it leaves the default."""
    for keyword in call.keywords:
        if keyword.arg == passed.parameter:
            return keyword.value
    is_given = passed.position is not None and passed.position < len(call.args)
    return call.args[passed.position or 0] if is_given else None


def _passed_on(tree: ast.Module, value: ast.expr | None) -> Passed | None:
    """Return the parameter that an expression is, if its function uses it for nothing else."""
    if not isinstance(value, ast.Name):
        return None
    around = [node for node in ast.walk(tree) if _holds(node, value)]
    functions = [node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)]
    if not functions or not isinstance(functions[-1], ast.FunctionDef):
        return None
    function = functions[-1]  # ast.walk goes from the outside in
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == value.id]
    if value.id not in parameters_of(function) - assigned_names(function) or len(uses) != 1:
        return None
    owner = next((node for node in around if isinstance(node, ast.ClassDef) and function in node.body), None)
    is_static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in function.decorator_list)
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if owner is not None and not is_static else names
    name = owner.name if owner is not None and function.name == "__init__" else function.name
    return Passed(name, value.id, names.index(value.id) if value.id in names else None)


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(outer))

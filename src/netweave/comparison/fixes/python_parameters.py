"""A parameter of a constructor of blocks that has, in each block, the value that a setting should have."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.comparison.fixes.python_names import assigned_names, parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Given:
    """A setting of some layer as it is now.

    Attributes:
        owner: Name of the module that the layer is a part of.
        line: The line that constructs the layer.
        value: The value of the setting.
    """

    owner: str
    line: int
    value: Any


def parameter_with(
    text: str, line: int, name: str, wanted: Mapping[str, Any], given: Iterable[Given]
) -> str | None:
    """Return the parameter that is right for a setting in all layers that a line constructs; None if none is.

    What a parameter is in each block is known from the other layers of the block that are given it.

    Args:
        text: The file.
        line: The line that constructs the layers.
        name: The setting.
        wanted: Its right values, by the module that the layer is a part of.
        given: The same setting of all layers that the file constructs.
    """
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_on(node, line)]
    if not functions:
        return None
    function = max(functions, key=lambda node: node.lineno)  # the innermost
    free = parameters_of(function) - assigned_names(function)
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or _is_on(call, line):
            continue
        for keyword in call.keywords:
            if keyword.arg != name or not isinstance(keyword.value, ast.Name) or keyword.value.id not in free:
                continue
            known: dict[str, list[Any]] = {}
            for one in given:
                if _is_on(call, one.line):
                    known.setdefault(one.owner, []).append(one.value)
            if all(_agree(known.get(owner, []), value) for owner, value in wanted.items()):
                return keyword.value.id
    return None


def is_same_setting(a: Any, b: Any) -> bool:
    """Return whether two values mean the same for each axis: one number stands for all.

    >>> is_same_setting([2, 2], 2), is_same_setting((1, 2), [1, 2]), is_same_setting(1, True)
    (True, True, False)
    """
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_same_setting, a, b))
    if isinstance(a, list | tuple):
        a, b = b, a
    if isinstance(b, list | tuple):
        return bool(b) and all(is_same_setting(a, one) for one in b)
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _agree(values: list[Any], wanted: Any) -> bool:
    """Return whether there are values, and all of them are the one that is wanted."""
    return bool(values) and all(is_same_setting(value, wanted) for value in values)


def _is_on(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)

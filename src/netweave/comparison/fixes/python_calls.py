"""Fixes of Python source beyond arguments: another function or class, and inputs in another order."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from netweave.comparison.fixes.signatures import position
from netweave.comparison.fixes.text import (
    NotAppliedError,
    Replacement,
    SeveralCallsError,
    in_order_of,
    permuted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison import Edit
    from netweave.comparison.fixes.python_source import Places

FUNCTIONS = {
    "ReLU": "relu", "ReLU6": "relu6", "LeakyReLU": "leaky_relu", "ELU": "elu", "SELU": "selu", "GELU": "gelu",
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Softsign": "softsign", "Mish": "mish",
    "Hardswish": "hardswish", "SiLU": "silu",
    **{f"MaxPool{n}d": f"max_pool{n}d" for n in "123"},
    **{f"AvgPool{n}d": f"avg_pool{n}d" for n in "123"},
    **{f"AdaptiveMaxPool{n}d": f"adaptive_max_pool{n}d" for n in "123"},
    **{f"AdaptiveAvgPool{n}d": f"adaptive_avg_pool{n}d" for n in "123"},
}  # fmt: skip
"""PyTorch's function of each module that a fix may name: the line may call either."""

CLASSES = frozenset(
    {
        *FUNCTIONS, "Activation", "MaxPooling2D", "AveragePooling2D", "GlobalMaxPooling2D",
        "GlobalAveragePooling2D", "Add", "Multiply", "Subtract", "Maximum",
    }
)  # fmt: skip
"""Modules and layers that a fix may put in each other's place."""

CALLED = CLASSES | frozenset(
    {*FUNCTIONS.values(), "clipped_relu", "max_pooling_2d", "average_pooling_2d", "log_softmax", "softmax"}
)

IN_PLACE = frozenset(
    name
    for module in ("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "SiLU", "Mish", "Hardswish")
    for name in (module, FUNCTIONS[module])
)
"""What of PyTorch takes ``inplace``: a line may call it for what it does to its input alone."""

JOINING = frozenset({"cat", "concat", "concatenate"})
"""Functions of PyTorch, Chainer, Keras and NumPy whose first argument lists what they join."""

MODULES = frozenset({"F", "functional", "functions"})
"""How files call what has all of a framework's functions; of other names a function need not be there."""


def operator_changes(calls: Sequence[ast.Call], layer: str, edit: Edit, places: Places) -> list[Replacement]:
    """Return the changes that have a line compute something else.

    Args:
        calls: The calls of the line.
        layer: Name of the layer.
        edit: What it is to call.
        places: Where the calls stand in the text.

    Raises:
        NotAppliedError: Which call it is, or how it would be written there, is not clear.
    """
    wanted = ast.parse(edit.value, mode="eval").body
    name = _last(wanted.func if isinstance(wanted, ast.Call) else wanted)
    arguments = _arguments(wanted)
    call = _the_call([call for call in calls if _computes(call)], layer, edit)
    activation = _activation(call)
    if activation is not None:
        return [Replacement(*places.of(activation), _named_activation(name, wanted))]
    if not isinstance(call.func, ast.Attribute) and _last(call.func) != name:
        raise NotAppliedError(f"the file may not import {name}; do it by hand: use {edit.value}")
    if _last(call.func) in CLASSES:
        kept = [places.text(word) for word in call.keywords if word.arg == "name"]
        if not isinstance(wanted, ast.Call):
            return [_renamed(call, name, places)]
        kept += _in_place(call, name, places)
        return [_renamed(call, name, places), _inside(call, [*arguments, *kept], places)]
    if not isinstance(call.func, ast.Attribute) or _last(call.func.value) not in MODULES or not call.args:
        raise NotAppliedError(f"the line calls no function that {name} can stand for: use {edit.value}")
    first, kept = places.text(call.args[0]), _in_place(call, name, places)
    return [
        _renamed(call, FUNCTIONS.get(name, name), places),
        _inside(call, [first, *arguments, *kept], places),
    ]


def _in_place(call: ast.Call, name: str, places: Places) -> list[str]:
    """Return the argument by which a call changes its input, for another one that can do so as well."""
    if _last(call.func) not in IN_PLACE or name not in IN_PLACE:
        return []
    place = position(_last(call.func), "inplace")
    named = [word.value for word in call.keywords if word.arg == "inplace"]
    by_place = call.args[place : place + 1] if place is not None else []
    flags = [value for value in by_place if isinstance(value, ast.Constant) and isinstance(value.value, bool)]
    return [f"inplace={places.text(value)}" for value in named or flags]


def order_changes(
    tree: ast.Module, calls: Sequence[ast.Call], line: int, edit: Edit, places: Places
) -> list[Replacement]:
    """Return the changes that put what a call at a line joins in another order.

    Raises:
        NotAppliedError: No call of the line lists as many inputs to join, or several do.
    """
    joining = [call.args[0] for call in calls if call.args and _joins(call)]
    listed = [_listed(tree, given) if isinstance(given, ast.Name) else given for given in joining]
    if len(listed) != 1 or not isinstance(listed[0], ast.Tuple | ast.List):
        raise NotAppliedError(f"no call at line {line} lists what it joins; change the order by hand")
    parts, order = listed[0].elts, in_order_of(edit)
    if any(isinstance(part, ast.Starred) for part in parts):
        raise NotAppliedError(f"line {line} joins a list whose length the text does not say")
    if len(parts) != len(order):
        raise NotAppliedError(f"line {line} has {len(parts)} inputs in the file and {len(order)} in the net")
    texts = permuted([places.text(part) for part in parts], order)
    return [Replacement(*places.of(part), text) for part, text in zip(parts, texts, strict=True)]


def _listed(tree: ast.Module, given: ast.Name) -> ast.expr | None:
    """Return what a variable is in its function, if it is given one value, and nothing else reads it."""
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and given in ast.walk(node)
    ]
    if not functions:
        return None
    inside = list(ast.walk(functions[-1]))  # outer functions come first
    uses = [node for node in inside if isinstance(node, ast.Name) and node.id == given.id]
    values = [
        node.value
        for node in inside
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and node.targets[0] in uses
    ]
    return values[0] if len(values) == 1 and len(uses) == 2 else None


def _joins(call: ast.Call) -> bool:
    """Return whether a call joins what its first argument lists, by a function or by a layer of Keras."""
    is_layer = isinstance(call.func, ast.Call) and _last(call.func.func) == "Concatenate"
    return is_layer or _last(call.func) in JOINING


def _computes(call: ast.Call) -> bool:
    return _last(call.func) in CALLED or _activation(call) is not None


def _activation(call: ast.Call) -> ast.expr | None:
    """Return the argument by which a layer of Keras says its activation; None if it has none."""
    for keyword in call.keywords:
        if keyword.arg == "activation":
            return keyword.value
    return call.args[0] if _last(call.func) == "Activation" and call.args else None


def _named_activation(name: str, wanted: ast.expr) -> str:
    """Return an activation as Keras takes it by name, in quotes."""
    given = wanted.args if isinstance(wanted, ast.Call) else []
    if name == "Activation" and given:
        return ast.unparse(given[0])
    if given:
        raise NotAppliedError(f"{name} has settings of its own, and the layer takes only the name of one")
    return repr(FUNCTIONS.get(name, name.lower()))


def _the_call(calls: Sequence[ast.Call], layer: str, edit: Edit) -> ast.Call:
    """Return the one call that computes what is to be changed."""
    named = [call for call in calls if _last(call.func) == layer or is_named(call, layer)]
    chosen = calls if len(calls) == 1 else named
    if len(chosen) != 1:
        several = SeveralCallsError if calls else NotAppliedError
        raise several(f"the line has {len(calls)} calls that could become {edit.value}")
    return chosen[0]


def is_named(call: ast.Call, layer: str) -> bool:
    """Return whether a call names a Keras layer, itself or with the other layers of a loop.

    In a loop the name is a pattern such as ``f"block{i}_add"``.
    """
    values = [word.value for word in call.keywords if word.arg == "name"]
    return any(re.fullmatch(_name_pattern(value), layer) for value in values)


def _name_pattern(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return re.escape(str(value.value))
    parts = value.values if isinstance(value, ast.JoinedStr) else []
    return "".join(_name_pattern(part) if isinstance(part, ast.Constant) else ".+" for part in parts)


def _arguments(wanted: ast.expr) -> list[str]:
    if not isinstance(wanted, ast.Call):
        return []
    named = [f"{word.arg}={ast.unparse(word.value)}" for word in wanted.keywords]
    return [*map(ast.unparse, wanted.args), *named]


def _renamed(call: ast.Call, name: str, places: Places) -> Replacement:
    """Return the change of the last part of what is called: ``F.relu`` stays one of ``F``."""
    end = places.of(call.func)[1]
    return Replacement(end - len(_last(call.func)), end, name)


def _inside(call: ast.Call, arguments: Sequence[str], places: Places) -> Replacement:
    """Return the change of all that stands in the brackets of a call."""
    start, end = places.of(call.func)[1], places.of(call)[1]
    return Replacement(start, end, f"({', '.join(arguments)})")


def _last(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

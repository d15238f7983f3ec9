"""Applying an operator of the table to symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.naming import fresh_name, scoped_attributes, user_attributes
from netweave.formats.mxnet.symbol.operators import READERS
from netweave.formats.mxnet.symbol.registry import COUNT
from netweave.formats.mxnet.symbol.settings import HARMLESS_SUFFIXES
from netweave.formats.mxnet.symbol.vertex import VARIABLE, Output, Vertex, caller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Origin


FIRST_VALUES = {
    ("", "moving_mean"): '["zero", {}]',
    ("", "moving_var"): '["one", {}]',
    ("LeakyReLU", "gamma"): '["Constant", {"value": 0.25}]',
    ("UpSampling", "weight"): '["bilinear", {}]',
}
"""Rules that MXNet gives to variables it makes itself, by operator ("" for any) and argument."""


def apply(
    op: str,
    positional: Sequence[Sequence[Output]],
    named: Mapping[str, Sequence[Output]],
    *,
    settings: Mapping[str, Any],
    name: str | None = None,
    hint: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> tuple[Output, ...]:
    """Return the outputs of a new node; inputs that are not given become variables.

    Args:
        op: The operator.
        positional: Inputs in order, each the outputs of a symbol.
        named: Inputs by name.
        settings: The operator's, as Python values; those that are None are left out.
        name: Name of the node; None for a fresh one.
        hint: What a fresh name begins with; the operator by default.
        attributes: Of the user.

    Raises:
        UsageError: There is no such operator, or inputs are too many, unknown, or given twice.
        ReadError: A setting that says which inputs there are is missing or wrong.
    """
    reader = READERS.get(op)
    if reader is None:
        raise UsageError(f"unknown operator {op!r}; docs/reference/layers.md lists the operators of MXNet")
    origin = caller()
    vertex = Vertex(fresh_name(name, hint or op.lower()), op, {}, (), origin)
    texts = {key: setting_text(value) for key, value in settings.items() if value is not None}
    if reader.counted:
        texts.setdefault(COUNT, str(max(1, len(positional) + len(named))))
    own = {key: text for key, text in texts.items() if not key.endswith(HARMLESS_SUFFIXES)}
    of_arguments = {key: text for key, text in texts.items() if key not in own}
    hidden = {**scoped_attributes(), **user_attributes(attributes or {})}
    vertex.attributes.update({**hidden, **own})
    names = vertex.argument_names()
    if names is None and named:
        raise UsageError(f"{vertex.place}: takes its inputs in order, not by name ({', '.join(named)})")
    given = _given(vertex, names, positional, named)
    if names is not None:
        vertex.inputs = tuple(
            given[key] if key in given else _variable(vertex, key, hidden, of_arguments, origin)
            for key in names
        )
    else:
        vertex.inputs = tuple(given.values())
    return tuple(Output(vertex, number) for number in range(reader.count(vertex.settings)))


def setting_text(value: Any) -> str:
    """Return a setting as MXNet writes it.

    >>> setting_text((3, 3)), setting_text(np.float32), setting_text(True)
    ('(3, 3)', 'float32', 'True')
    """
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, np.generic):
        value = value.item()
    return str(value)


def _given(
    vertex: Vertex,
    names: Sequence[str] | None,
    positional: Sequence[Sequence[Output]],
    named: Mapping[str, Sequence[Output]],
) -> dict[str, Output]:
    if names is not None and len(positional) > len(names):
        raise UsageError(
            f"{vertex.place}: {len(positional)} inputs given, expected at most {len(names)}: "
            f"{', '.join(names)}"
        )
    keys = list(names or map(str, range(len(positional))))[: len(positional)]
    unknown = [key for key in named if key not in (names or ())]
    if unknown:
        raise UsageError(
            f"{vertex.place}: no input {', '.join(map(repr, unknown))}; it has: {', '.join(names or ())}"
        )
    twice = [key for key in named if key in keys]
    if twice:
        raise UsageError(f"{vertex.place}: input {twice[0]!r} is given twice")
    pairs = [*zip(keys, positional, strict=True), *named.items()]
    return {key: _single(vertex, key, outputs) for key, outputs in pairs}


def _single(vertex: Vertex, key: str, outputs: Sequence[Output]) -> Output:
    if len(outputs) != 1:
        raise UsageError(
            f"{vertex.place}: input {key!r} has {len(outputs)} outputs, expected one; take one, as in "
            "symbol[0]"
        )
    return outputs[0]


def _variable(
    vertex: Vertex, argument: str, hidden: Mapping[str, str], multipliers: Mapping[str, str], origin: Origin
) -> Output:
    """Return the variable for an input that nobody gave, with the user's attributes of its node."""
    attributes = dict(hidden)
    rule = FIRST_VALUES.get((vertex.op, argument)) or FIRST_VALUES.get(("", argument))
    if rule is not None:
        attributes["__init__"] = rule
    for suffix in HARMLESS_SUFFIXES:
        text = multipliers.get(f"{argument}_{suffix}")
        if text is not None:
            attributes[f"__{suffix}__"] = text
    return Output(Vertex(f"{vertex.name}_{argument}", VARIABLE, attributes, (), origin))

"""Constants, inputs and variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored
from netweave.formats.tensorflow.operands import Handle, Saved
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item


@operator_reader("Const", "HostConst", plain=True)
def const(call: Call) -> Item:
    """An array in the file: one of several real numbers is stored, everything else is part of the net."""
    value = call.attribute("value")
    if not isinstance(value, np.ndarray):
        raise call.refuse("a constant without a value")
    if value.dtype.kind == "f" and value.ndim and value.size > 1:
        return Stored.parameter(call.node.name, value, value.shape)
    return Stored.constant(value)


@operator_reader("Placeholder", "PlaceholderV2", plain=True)
def placeholder(call: Call) -> Item:
    """What the caller gives; one that says how the net is trained has no place in a net that predicts."""
    return call.interpreter.inputs.value(call.node, call.place)


@operator_reader(
    "VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable", "TemporaryVariable", plain=True
)
def variable(call: Call) -> Item:
    """An array that the net's checkpoint holds."""
    if call.op == "VarHandleOp":
        return Handle(call.node.name)
    return call.interpreter.variables.value(call.node.name, call.place)


@operator_reader("ReadVariableOp", plain=True)
def read_variable(call: Call) -> Item:
    """The array of a variable."""
    handle = call.item(0)
    if not isinstance(handle, Handle):
        return handle
    return call.interpreter.variables.value(handle.name, call.place)


@operator_reader(
    "CheckNumerics",
    "EnsureShape",
    "Identity",
    "IdentityN",
    "PlaceholderWithDefault",
    "PreventGradient",
    "RefIdentity",
    "Snapshot",
    "StopGradient",
    plain=True,
)
def identity(call: Call) -> list[Item]:
    """The same again."""
    return list(call.inputs)


@operator_reader("RestoreV2", plain=True)
def restore(call: Call) -> list[Item]:
    """Arrays of a checkpoint, by their keys."""
    keys = call.constant(1, "the list of keys").reshape(-1)
    return [Saved(key.decode("utf-8", "backslashreplace")) for key in keys]


@operator_reader("NoOp", "Assert", "ControlTrigger", plain=True)
def nothing(call: Call) -> list[Item]:
    """Something that makes no tensor."""
    return []

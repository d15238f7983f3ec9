"""Constants, inputs and variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Stored
from netweave.formats.tensorflow.operands import Handle, Saved
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.formats.tensorflow.operands import Item


@operator_reader("Const", "HostConst", plain=True)
def const(ctx: TensorFlowOperation) -> Item:
    """An array in the file: one of several real numbers is stored, everything else is part of the net."""
    value = ctx.attribute("value")
    if not isinstance(value, np.ndarray):
        raise ctx.unsupported("a constant without a value")
    if value.dtype.kind == "f" and value.ndim and value.size > 1:
        return Stored.parameter(ctx.node.name, value, value.shape)
    return Stored.constant(value)


@operator_reader("Placeholder", "PlaceholderV2", plain=True)
def placeholder(ctx: TensorFlowOperation) -> Item:
    """Read a placeholder; one that controls training has no place in a net that predicts."""
    return ctx.interpreter.inputs.value(ctx.node, ctx.place)


@operator_reader(
    "VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable", "TemporaryVariable", plain=True
)
def variable(ctx: TensorFlowOperation) -> Item:
    """An array that the net's checkpoint holds."""
    if ctx.op == "VarHandleOp":
        return Handle(ctx.node.name)
    return ctx.interpreter.variables.value(ctx.node.name, ctx.place)


@operator_reader("ReadVariableOp", plain=True)
def read_variable(ctx: TensorFlowOperation) -> Item:
    """The array of a variable."""
    handle = ctx.item(0)
    if not isinstance(handle, Handle):
        return handle
    return ctx.interpreter.variables.value(handle.name, ctx.place)


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
def identity(ctx: TensorFlowOperation) -> list[Item]:
    """The same again."""
    return list(ctx.inputs)


@operator_reader("RestoreV2", plain=True)
def restore(ctx: TensorFlowOperation) -> list[Item]:
    """Arrays of a checkpoint, by their keys."""
    keys = ctx.constant_input(1, "the list of keys").reshape(-1)
    return [Saved(key.decode("utf-8", "backslashreplace")) for key in keys]


@operator_reader("NoOp", "Assert", "ControlTrigger", plain=True)
def nothing(ctx: TensorFlowOperation) -> list[Item]:
    """Something that makes no tensor."""
    return []

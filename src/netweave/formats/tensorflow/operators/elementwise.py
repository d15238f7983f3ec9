"""Elementwise operators of TensorFlow."""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.channels_last.layer import along
from netweave.formats.lowering.elementwise import find_operator
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.nodes import TensorFlowOperation, operator_reader
from netweave.formats.tensorflow.operands import Handle, Item, Saved

# tensorflow/core/ops: math_ops.cc, nn_ops.cc; tensorflow/core/kernels: fake_quant_ops_functor.h.

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Erfc", "Exp",
    "Expm1", "Floor", "Inv", "IsInf", "IsNan", "Log", "Log1p", "LogicalNot", "Neg", "Reciprocal", "Rint",
    "Round", "Rsqrt", "Sign", "Sin", "Sinh", "Sqrt", "Square", "Tan",
)  # fmt: skip
"""Operators on one tensor that are what other frameworks call so too; Rint is Round, halves to even."""

BINARY = (
    "Add", "AddV2", "Div", "Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr",
    "Maximum", "Minimum", "Mul", "Pow", "RealDiv", "Sub", "TruncateDiv",
)  # fmt: skip
"""Operators on two tensors that are broadcast."""


@operator_reader(*UNARY)
def unary(ctx: TensorFlowOperation) -> Tensor:
    """An operator on one tensor."""
    return ctx.elementwise("Round" if ctx.op == "Rint" else ctx.op, ctx.x)


@operator_reader(*BINARY)
def binary(ctx: TensorFlowOperation) -> Tensor:
    """An operator on two tensors."""
    return ctx.broadcast(find_operator(ctx.op), ctx.operands(0, 2))


@operator_reader("FloorDiv")
def floor_div(ctx: TensorFlowOperation) -> Tensor:
    """Rounded down; ONNX rounds integers to zero, so their rest is taken off first."""
    a, b = map(ctx.tensor, ctx.operands(0, 2))
    if _is_float(a):
        return ctx.unary("Floor", ctx.broadcast("Div", [a, b]))
    exact = ctx.broadcast("Sub", [a, ctx.broadcast("Mod", [a, b])])
    return ctx.broadcast("Div", [exact, b])


@operator_reader("FloorMod")
def floor_mod(ctx: TensorFlowOperation) -> Tensor:
    """The rest has the sign of the divisor; ONNX's Mod is that of integers alone."""
    a, b = ctx.operands(0, 2)
    if isinstance(a, Tensor) and not _is_float(a):
        return ctx.broadcast("Mod", [a, b])
    quotient = ctx.unary("Floor", ctx.broadcast("Div", [a, b]))
    return ctx.broadcast("Sub", [a, ctx.broadcast("Mul", [quotient, b])])


@operator_reader("Mod", "TruncateMod")
def truncate_mod(ctx: TensorFlowOperation) -> Tensor:
    """The rest has the sign of what is divided."""
    return ctx.broadcast("Mod", ctx.operands(0, 2), {"fmod": 1})


@operator_reader("NotEqual")
def not_equal(ctx: TensorFlowOperation) -> Tensor:
    """The opposite of Equal."""
    return ctx.unary("Not", ctx.broadcast("Equal", ctx.operands(0, 2)))


@operator_reader("SquaredDifference")
def squared_difference(ctx: TensorFlowOperation) -> Tensor:
    """``(a - b) ** 2``."""
    return ctx.elementwise("square", ctx.broadcast("Sub", ctx.operands(0, 2)))


@operator_reader("DivNoNan")
def div_no_nan(ctx: TensorFlowOperation) -> Tensor:
    """0 where the divisor is 0."""
    a, b = ctx.operands(0, 2)
    quotient = ctx.broadcast("Div", [a, b])
    zero = ctx.scalar(0, quotient)
    return ctx.broadcast("Where", [ctx.broadcast("Equal", [b, zero]), zero, quotient])


@operator_reader("ZerosLike", "OnesLike")
def constant_like(ctx: TensorFlowOperation) -> Tensor:
    """The same sizes, all 0 or all 1: no number is less than itself, and neither is NaN or infinity."""
    x = ctx.unary("Identity", ctx.x)
    less = ctx.broadcast("Less", [x, x])
    holds = less if ctx.op == "ZerosLike" else ctx.unary("Not", less)
    return ctx.as_type(holds, x.value.dtype or ir.DataType.FLOAT)


@operator_reader("AddN", "AccumulateNV2")
def add_n(ctx: TensorFlowOperation) -> Tensor:
    """The sum of all inputs."""
    first, *others = ctx.operands()
    return reduce(lambda a, b: ctx.broadcast("Add", [a, b]), others, ctx.tensor(first))


@operator_reader("Select", "SelectV2")
def select(ctx: TensorFlowOperation) -> Tensor:
    """``a`` where the condition holds, else ``b``; Select's condition may have one axis."""
    condition, a, b = ctx.operands(0, 3)
    if ctx.op == "Select" and ctx.rank(condition) == 1 < ctx.rank(a):
        condition = Tensor(ctx.reshape(condition, [-1, *[1] * (ctx.rank(a) - 1)]))
    return ctx.broadcast("Where", [condition, a, b])


@operator_reader("ClipByValue")
def clip_by_value(ctx: TensorFlowOperation) -> Tensor:
    """Between two numbers."""
    return ctx.unary("Clip", ctx.x, more=[ctx.source(limit) for limit in ctx.operands(1, 3)])


@operator_reader("Cast", "Bitcast")
def cast(ctx: TensorFlowOperation) -> Tensor | Stored:
    """Another element type; a stored array between real types stays as it is stored."""
    wanted = str(ctx.attribute("DstT", ctx.attribute("type", "")))
    if wanted not in DTYPES or (ctx.op == "Bitcast" and wanted != ctx.attribute("T")):
        raise ctx.unsupported(f"a conversion to the type {wanted} is not supported")
    x = ctx.x
    if isinstance(x, Stored) and x.array is not None and x.array.dtype == DTYPES[wanted]:
        return x
    dtype = ir.DataType.from_numpy(DTYPES[wanted])
    return x if isinstance(x, Tensor) and x.value.dtype == dtype else ctx.as_type(x, dtype)


def bias_add(
    ctx: TensorFlowOperation, x: Operand | None = None, bias: Tensor | Stored | None = None
) -> Tensor:
    """One number added per channel: the second input to the first, where no others are given."""
    x, bias = x or ctx.x, bias or ctx.operand(1)
    added: Operand = bias.with_role("bias") if isinstance(bias, Stored) else bias
    rank = ctx.rank(x)
    if not ctx.is_last() and rank > 2:
        column = (ctx.shape(bias)[0] or -1, *[1] * (rank - 2))
        added = added.reshaped(column) if isinstance(added, Stored) else ctx.reshape(added, column)
    return ctx.broadcast("Add", [x, added])


# no decorator: fused.py calls it, and needs its own type
operator_reader("BiasAdd", "BiasAddV1")(bias_add)


def _is_float(x: Tensor) -> bool:
    return x.value.dtype is None or x.value.dtype.is_floating_point()


@operator_reader("Elu", "Relu", "Relu6", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh")
def activation(ctx: TensorFlowOperation) -> Tensor:
    """An activation that is what other frameworks call so too."""
    return ctx.elementwise(ctx.op, ctx.x)


@operator_reader("SwishF32", "swish_f32")
def swish(ctx: TensorFlowOperation) -> Tensor:
    """``x * sigmoid(x)``."""
    return ctx.elementwise("swish", ctx.x)


@operator_reader("LeakyRelu")
def leaky_relu(ctx: TensorFlowOperation) -> Tensor:
    """``x`` above 0, ``alpha * x`` below."""
    return ctx.unary("LeakyRelu", ctx.x, {"alpha": ctx.number("alpha", 0.2)})


@operator_reader("Softmax", "LogSoftmax")
def softmax(ctx: TensorFlowOperation) -> Tensor:
    """Over the last axis."""
    return along(ctx, ctx.op, ctx.x, -1)


@operator_reader("Dropout")
def dropout(ctx: TensorFlowOperation) -> Tensor:
    """A group of nodes that is a dropout (``patterns``); nothing is dropped in a net that predicts."""
    ratio = ctx.attribute("ratio")
    if not isinstance(ratio, float) or not 0 <= ratio < 1:
        return ctx.unary("Identity", ctx.x)
    return ctx.unary("Dropout", ctx.x, more=[ctx.constant(ratio)])


@operator_reader("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quantised(ctx: TensorFlowOperation) -> Tensor:
    """To the nearest of 2^bits numbers between two limits, which are moved so that 0 is one of them."""
    if ctx.op == "FakeQuantWithMinMaxArgs":
        limits = [np.asarray(ctx.number(name, of), np.float32) for name, of in (("min", -6.0), ("max", 6.0))]
    else:
        limits = [
            ctx.constant_input(index, what).astype(np.float32) for index, what in ((1, "min"), (2, "max"))
        ]
    first = int(bool(ctx.attribute("narrow_range", False)))
    last = 2 ** ctx.integer("num_bits", 8) - 1
    low, high = limits
    scale = (high - low) / np.float32(last - first)
    if not np.all(scale > 0):
        raise ctx.read_error(
            f"limits from {low.tolist()} to {high.tolist()}, expected the second to be larger"
        )
    zero = np.clip(np.floor(np.float32(first) - low / scale + np.float32(0.5)), first, last)
    begin, end = (first - zero) * scale, (last - zero) * scale
    begin, end, step = (Stored.constant(np.asarray(array, np.float32)) for array in (begin, end, scale))
    kept = ctx.broadcast("Min", [ctx.broadcast("Max", [ctx.operand(0), begin]), end])
    steps = ctx.broadcast("Div", [ctx.broadcast("Sub", [kept, begin]), step])
    half = Stored.constant(np.asarray(0.5, np.float32))
    rounded = ctx.unary("Floor", ctx.broadcast("Add", [steps, half]))
    return ctx.broadcast("Add", [ctx.broadcast("Mul", [rounded, step]), begin])


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


REASONS = {
    **dict.fromkeys(
        ("Enter", "RefEnter", "NextIteration", "RefNextIteration", "Exit", "RefExit"),
        "part of a loop of TensorFlow 1 that has not the form of tf.while_loop; save it with control flow v2",
    ),
    **dict.fromkeys(
        ("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniformV2"),
        "random numbers outside of a dropout",
    ),
    **dict.fromkeys(
        ("PyFunc", "EagerPyFunc"), "its code is in the program that wrote the net, not in the file"
    ),
    "CombinedNonMaxSuppression": "boxes of all classes at once: not read; end the net before it",
    **dict.fromkeys(
        ("CTCGreedyDecoder", "CTCBeamSearchDecoder"),
        "it looks for the best text, step by step; end the net at the scores before it",
    ),
    **dict.fromkeys(
        ("HashTableV2", "LookupTableFindV2", "LookupTableFind", "HashTable"),
        "it looks texts up in a table; begin the net behind it",
    ),
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "ParseExample", "ParseExampleV2", "IteratorGetNext"),
        "it reads data; freeze the net from its first layer on",
    ),
}

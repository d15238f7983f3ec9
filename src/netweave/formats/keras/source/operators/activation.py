"""Activations as layers of Keras, and functions of each element as those of ``keras.ops``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.text import number
from netweave.formats.keras.source.table import KerasNode, writes
from netweave.formats.lowering.nodes.arrays import clip_bounds
from netweave.formats.lowering.nodes.names import by_operator

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.source_code.steps import Step

_ACTIVATIONS = by_operator(("exponential", "mish", "sigmoid", "softplus", "softsign", "tanh"))
_FUNCTIONS = by_operator(
    ("absolute", "ceil", "cos", "erf", "floor", "log", "negative", "reciprocal", "sign", "sin", "sqrt")
)
_EXPRESSIONS = {
    **{op_type: f'layers.Activation("{name}")({{0}})' for op_type, name in _ACTIVATIONS.items()},
    **{op_type: f"ops.{name}({{0}})" for op_type, name in _FUNCTIONS.items()},
    "HardSwish": 'layers.Activation("hard_silu")({0})',
    "LeakyRelu": "layers.LeakyReLU(<alpha>)({0})",
    "Relu": "layers.ReLU()({0})",
}


@writes(*_EXPRESSIONS)
def plain(node: KerasNode) -> Step:
    """A layer or a function of each element, with its settings."""
    return node.step(node.with_settings(_EXPRESSIONS[node.op_type]))


@writes("Elu")
def elu(node: KerasNode) -> Step:
    """An exponential below 0, by its name alone where its slope is 1."""
    is_plain = node.get("alpha") == 1
    form = 'layers.Activation("elu")({0})' if is_plain else "layers.ELU(<alpha>)({0})"
    return node.step(node.with_settings(form))


@writes("Gelu")
def gelu(node: KerasNode) -> Step:
    """By the error function, which Keras takes when it is given a name alone, or by a tangent."""
    is_exact = node.get("approximate") == "none"
    return node.step('layers.Activation("gelu")({0})' if is_exact else "ops.gelu({0})")


@writes("HardSigmoid")
def hard_sigmoid(node: KerasNode) -> Step:
    """A line between 0 and 1; Keras's own has the slope 1/6."""
    if math.isclose(node.get("alpha"), 1 / 6, rel_tol=1e-4) and node.get("beta") == 0.5:
        return node.step('layers.Activation("hard_sigmoid")({0})')
    return node.step(node.with_settings("ops.clip(<alpha> * {0} + <beta>, 0, 1)"))


@writes("Clip")
def clip(node: KerasNode) -> Step:
    """Between two bounds, or on one side of one."""
    low, high = clip_bounds(node)
    if low is not None and high is not None:
        if _is_words(node.outputs[0]):
            return node.step(f"ops.clip({{0}}, {int(low)}, {int(high)})")
        if low != 0:
            return node.step(f"ops.clip({{0}}, {number(low)}, {number(high)})")
    if low == 0:
        return node.step(f"layers.ReLU({'' if high is None else f'max_value={number(high)}'})({{0}})")
    if low is not None:
        return node.step(f"ops.maximum({{0}}, {number(low)})")
    return node.step("{0}" if high is None else f"ops.minimum({{0}}, {number(high)})")


@writes("Cast")
def cast(node: KerasNode) -> Step:
    """Another type; numbers of words stay as they are, since an embedding takes them as whole numbers."""
    if _is_words(node.outputs[0]):
        return node.step("{0}")
    kind = node.outputs[0].dtype
    if kind is None:
        raise NotWritable("its type is not known")
    return node.step(f'ops.cast({{0}}, "{kind.numpy().name}")')


def _is_words(value: ir.Value) -> bool:
    """Return whether a value is read as numbers of words alone, bounded or not."""
    return bool(value.uses()) and all(
        not use.node.domain
        and (
            (use.node.op_type == "Gather" and use.idx == 1)
            or (use.node.op_type == "Clip" and use.idx == 0 and _is_words(use.node.outputs[0]))
        )
        for use in value.uses()
    )


@writes("LogSoftmax", "Softmax")
def softmax(node: KerasNode) -> Step:
    """Over one axis, or the logarithm of that."""
    rank = node.rank(0)
    axis = node.place(node.axis())
    if node.op_type == "Softmax":
        return node.step(f"layers.Softmax({'' if axis == rank - 1 else axis})({{0}})")
    return node.step("ops.log_softmax({0})" if axis == rank - 1 else f"ops.log_softmax({{0}}, axis={axis})")

"""Activations as layers of Keras, and functions of each element as those of ``keras.ops``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.text import number
from netweave.formats.keras.source.table import KerasNode, channels_last, writes
from netweave.lowering.nodes.arrays import clip_bounds
from netweave.lowering.nodes.names import by_operator

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.source_code.steps import Step

_NAMES = by_operator(("elu", "exponential", "mish", "sigmoid", "softplus", "softsign", "tanh"))
_NAMES["HardSwish"] = "hard_silu"


@writes(*_NAMES)
def plain(node: KerasNode) -> Step:
    """A function by its name."""
    if node.op_type == "Elu" and node.get("alpha", 1.0) != 1:
        return node.step(f"layers.ELU({number(node.get('alpha'))})({{0}})")
    return node.step(f'layers.Activation("{_NAMES[node.op_type]}")({{0}})')


@writes("Relu")
def relu(node: KerasNode) -> Step:
    """Nothing below 0."""
    return node.step("layers.ReLU()({0})")


@writes("LeakyRelu")
def leaky_relu(node: KerasNode) -> Step:
    """A slope below 0."""
    return node.step(f"layers.LeakyReLU({number(node.get('alpha', 0.01))})({{0}})")


@writes("Gelu")
def gelu(node: KerasNode) -> Step:
    """By the error function, which Keras takes when it is given a name alone."""
    if node.get("approximate", "none") != "none":
        raise NotWritable("its approximation is not written")
    return node.step('layers.Activation("gelu")({0})')


@writes("HardSigmoid")
def hard_sigmoid(node: KerasNode) -> Step:
    """A line between 0 and 1; Keras's own has the slope 1/6."""
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-4) and beta == 0.5:
        return node.step('layers.Activation("hard_sigmoid")({0})')
    return node.step(f"ops.clip({number(alpha)} * {{0}} + {number(beta)}, 0, 1)")


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


_FUNCTIONS = by_operator(
    ("absolute", "ceil", "cos", "erf", "floor", "log", "negative", "reciprocal", "sign", "sin", "sqrt")
)


@writes(*_FUNCTIONS)
def function(node: KerasNode) -> Step:
    """A function of each element."""
    return node.step(f"ops.{_FUNCTIONS[node.op_type]}({{0}})")


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
    """Whether a value is read as numbers of words alone, bounded or not."""
    return bool(value.uses()) and all(
        not use.node.domain
        and (
            (use.node.op_type == "Gather" and use.idx == 1)
            or (use.node.op_type == "Clip" and use.idx == 0 and _is_words(use.node.outputs[0]))
        )
        for use in value.uses()
    )


@writes("LogSoftmax")
def log_softmax(node: KerasNode) -> Step:
    """The logarithm of a softmax, over one axis."""
    rank = node.rank(0)
    axis = channels_last(node.axis("axis", -1), rank)
    return node.step("ops.log_softmax({0})" if axis == rank - 1 else f"ops.log_softmax({{0}}, axis={axis})")


@writes("Softmax")
def softmax(node: KerasNode) -> Step:
    """Over one axis."""
    rank = node.rank(0)
    axis = channels_last(node.axis("axis", -1), rank)
    return node.step("layers.Softmax()({0})" if axis == rank - 1 else f"layers.Softmax({axis})({{0}})")

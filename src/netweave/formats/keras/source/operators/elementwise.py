"""Elementwise operators as Keras's layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.forward import Field, Step
from netweave.files.source_code.text import number
from netweave.formats.keras.source.operators.shape import per_place
from netweave.formats.keras.source.operators.windows import biased_dense, per_channel
from netweave.formats.keras.source.table import KerasNode, writes
from netweave.formats.lowering.nodes.arrays import by_operator, clip_bounds

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


_LAYERS = {
    "Add": "Add",
    "Sub": "Subtract",
    "Mul": "Multiply",
    "Sum": "Add",
    "Max": "Maximum",
    "Min": "Minimum",
}

_AFFINE: dict[tuple[str, int], Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    ("Mul", 0): lambda c: (c, np.zeros_like(c)),
    ("Mul", 1): lambda c: (c, np.zeros_like(c)),
    ("Div", 1): lambda c: (1 / c, np.zeros_like(c)),
    ("Add", 0): lambda c: (np.ones_like(c), c),
    ("Add", 1): lambda c: (np.ones_like(c), c),
    ("Sum", 1): lambda c: (np.ones_like(c), c),
    ("Sub", 0): lambda c: (-np.ones_like(c), c),
    ("Sub", 1): lambda c: (np.ones_like(c), -c),
}
"""Scale and shift, given the stored values, by operator and which of its inputs is stored."""


@writes(*_LAYERS, "Div")
def merged(node: KerasNode) -> Step:
    """Several values, or a value and stored numbers."""
    indices = list(range(node.num_inputs))
    stored = [index for index in indices if node.is_stored(index)]
    if node.op_type == "Add" and (dense := biased_dense(node)) is not None:
        return dense
    if stored:
        return _affine(node, stored)
    ranks = {node.rank(index) for index in indices}
    if len(ranks) > 1 and any(node.has_channels_last(index) for index in indices):
        raise NotWritable("its values have another number of axes")
    if node.op_type == "Div":
        return replace(node.step("{0} / {1}", inputs=indices), binds=False)
    places = ", ".join(f"{{{index}}}" for index in indices)
    return node.step(f"layers.{_LAYERS[node.op_type]}()([{places}])", inputs=indices)


@writes("Pow")
def power(node: KerasNode) -> Step:
    """To a stored power; squares and roots have functions of their own."""
    if not node.is_stored(1) or node.constant(1).size != 1:
        raise NotWritable("its exponent is no stored number")
    exponent = float(node.constant(1).reshape(-1)[0])
    known = {2.0: "ops.square({0})", 0.5: "ops.sqrt({0})", -1.0: "ops.reciprocal({0})"}
    return node.step(known.get(exponent, f"ops.power({{0}}, {number(exponent)})"))


def _affine(node: KerasNode, stored: list[int]) -> Step:
    rule = _AFFINE.get((node.op_type, stored[0]))
    if len(stored) > 1 or node.num_inputs != 2:
        raise NotWritable("one of its inputs is stored")
    array, value = node.constant(stored[0]), 1 - stored[0]
    if rule is None:
        return _with_number(node, array, value)
    if array.size == 1:
        scale, shift = (float(part.reshape(-1)[0]) for part in rule(array.astype(np.float32)))
        offset = f", offset={number(shift)}" if shift else ""
        return node.step(f"layers.Rescaling({number(scale)}{offset})({{0}})", inputs=[value])
    rank = node.rank(value)
    wide = array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim <= rank else array
    if node.is_image(value) and wide.ndim == rank and wide.size == wide.shape[1]:
        factors, shifts = rule(wide.reshape(-1))
        return per_channel(node, value, factors, shifts if np.any(shifts) else None)
    return per_place(node, value, *rule(wide))


def _with_number(node: KerasNode, array: np.ndarray, value: int) -> Step:
    """Return what is not affine: the larger or smaller of a value and a number, a number by a value."""
    if array.size != 1:
        raise NotWritable("its stored array is no number")
    text = number(float(array.reshape(-1)[0]))
    if node.op_type == "Div":
        return replace(node.step(f"{text} / {{0}}", inputs=[value]), binds=False)
    return node.step(f"ops.{_LAYERS[node.op_type].lower()}({{0}}, {text})", inputs=[value])


_REDUCTIONS = {
    "ReduceL1": "ops.sum(ops.absolute({0})ARGS)",
    "ReduceL2": "ops.sqrt(ops.sum(ops.square({0})ARGS))",
    "ReduceMax": "ops.max({0}ARGS)",
    "ReduceMean": "ops.mean({0}ARGS)",
    "ReduceMin": "ops.min({0}ARGS)",
    "ReduceProd": "ops.prod({0}ARGS)",
    "ReduceSum": "ops.sum({0}ARGS)",
    "ReduceSumSquare": "ops.sum(ops.square({0})ARGS)",
}


@writes(*_REDUCTIONS)
def reduction(node: KerasNode) -> Step:
    """Over some axes; a mean or maximum over height and width is a layer."""
    rank, keeps = node.rank(0), bool(node.get("keepdims"))
    given = node.ints(1) if node.has(1) else list(range(rank))
    axes = sorted(axis % rank for axis in given)
    if not axes:
        return node.step("{0}")
    if node.is_image() and axes == [2, 3] and node.op_type in {"ReduceMean", "ReduceMax"}:
        kind = "Average" if node.op_type == "ReduceMean" else "Max"
        return node.step(f"layers.Global{kind}Pooling2D({'keepdims=True' if keeps else ''})({{0}})")
    if not keeps and node.makes_channels_last():
        raise NotWritable("what is left of its axes would be an image")
    mine = sorted(node.place(axis) for axis in axes)
    left = [node.place(axis) for axis in range(rank) if axis not in axes]
    over = str(mine[0] if mine != [rank - 1] else -1) if len(mine) == 1 else repr(tuple(mine))
    template = _REDUCTIONS[node.op_type].replace("ARGS", f", axis={over}{', keepdims=True' if keeps else ''}")
    if not keeps and left != sorted(left):
        order = tuple(sorted(left).index(axis) for axis in left)
        template = f"ops.transpose({template}, {order})"
    return node.step(template)


State = dict[str, "Callable[[], np.ndarray]"]


@writes("LRN")
def local_response(node: KerasNode) -> Step:
    """By the channels around each one: a function of the file's own."""
    node.need_image()
    return node.step(node.with_settings("local_response_norm({0}, <size>, <alpha>, <beta>, <bias>)"))


@writes("LayerNormalization")
def layer_normalization(node: KerasNode) -> Step:
    """Over the last axes, or those that they are in Keras."""
    rank = node.rank(0)
    first = node.axis()
    places = [node.place(axis) for axis in range(first, rank)]
    mine = sorted(places)
    order = [places.index(axis) for axis in mine]
    sizes = [size or 0 for size in node.shape(0)[first:]]
    state: State = {
        name: _turned(node, index, sizes, order)
        for index, name in ((1, "gamma"), (2, "beta"))
        if node.has(index)
    }
    if 0 in sizes or any(value.uses() for value in node.outputs[1:]):
        raise NotWritable("its sizes are not known, or its mean is read")
    fields = (
        Field("axis", -1 if mine == [rank - 1] else mine[0] if len(mine) == 1 else mine, -1),
        Field("epsilon", node.decimal("epsilon"), 1e-3),
        Field("center", node.has(2), True),
    )
    return node.weighted("LayerNormalization", fields, state)


def _turned(node: KerasNode, index: int, sizes: list[int], order: list[int]) -> Callable[[], np.ndarray]:
    """Return a function that gives an array of the normalised axes in Keras's order of them."""
    array = node.broadcast_array(index, sizes)
    return lambda: array().transpose(order)


@writes("InstanceNormalization", "GroupNormalization")
def group_normalization(node: KerasNode) -> Step:
    """Over height, width and the channels of a group; -1 stands for groups of one channel."""
    node.dimensions()
    groups = node.get("num_groups") if node.op_type == "GroupNormalization" else -1
    fields = (Field("groups", groups), Field("epsilon", node.decimal("epsilon"), 1e-3))
    return node.weighted(
        "GroupNormalization", fields, {"gamma": node.lazy_array(1), "beta": node.lazy_array(2)}
    )

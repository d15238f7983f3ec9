"""Taking scales and shifts per channel into the convolution, product or normalisation before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph

Channels = tuple[np.ndarray, np.ndarray]
"""Scale and shift by channel, float64 of shape (C,) or (1,)."""


@Pass
def absorb(graph: Graph) -> None:
    """Take BatchNormalization, and Mul, Div, Add and Sub of stored values per channel, into what is before.

    Before may be a Conv, ConvTranspose, Gemm, MatMul or BatchNormalization with stored weights that
    nothing else reads. The new node belongs to the layers of both and keeps the name of the last value;
    its weights are computed in float64 when they are read.
    """
    _absorb_into(graph, frozenset(_FACTORS))


@Pass
def absorb_scales(graph: Graph) -> None:
    """Take Mul, Div, Add and Sub of stored values per channel into the BatchNormalization before them.

    As ``absorb``, but a BatchNormalization stays: Caffe's BatchNorm and Scale become the one layer that
    other frameworks have for both.
    """
    _absorb_into(graph, frozenset({"BatchNormalization"}))


@Pass
def absorb_biases(graph: Graph) -> None:
    """Take Add and Sub of stored values per channel into the product before them: a dense layer has a bias.

    As ``absorb``; the weights stay as they are.
    """
    _absorb_into(graph, frozenset({"MatMul", "Gemm"}), frozenset({"Add", "Sub"}))


def _absorb_into(graph: Graph, takers: frozenset[str], taken: frozenset[str] | None = None) -> None:
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if taken is not None and node.op_type not in taken:
            continue
        read = _AFFINE.get(node.op_type) if node.domain == "" else None
        affine = read(node) if read else None
        maker = affine.value.producer() if affine else None
        if maker is None or affine is None or maker.op_type not in takers:
            continue
        if has_one_reader(affine.value) and _can_take(maker):
            _merge(rewriter, maker, node, affine)


@dataclass(frozen=True, slots=True)
class _Affine:
    """A node that gives ``scale * value + shift`` by channel, axis 1."""

    value: ir.Value
    channels: Callable[[], Channels]


# Reading the affine node.


def _stored(value: ir.Value | None) -> ir.TensorProtocol | None:
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def _normalisation(node: ir.Node) -> _Affine | None:
    value, *vectors = node.inputs
    tensors = [tensor for tensor in map(_stored, vectors) if tensor is not None]
    if value is None or len(tensors) != 4 or _trains(node):
        return None
    epsilon = node.attributes.get_float("epsilon", 1e-5)

    def channels() -> Channels:
        gamma, beta, mean, variance = (tensor.numpy().astype(np.float64) for tensor in tensors)
        scale = gamma / np.sqrt(variance + epsilon)
        return scale, beta - mean * scale

    return _Affine(value, channels)


def _trains(node: ir.Node) -> bool:
    return len(node.outputs) > 1 or node.attributes.get_int("training_mode", 0) != 0


def _arithmetic(node: ir.Node) -> _Affine | None:
    """Read a Mul, Div, Add or Sub of a value and a stored array with one element per channel."""
    stored = [_stored(value) for value in node.inputs]
    at = next((index for index, tensor in enumerate(stored) if tensor is not None), None)
    if len(stored) != 2 or at is None or stored[1 - at] is not None:
        return None
    value, tensor = node.inputs[1 - at], stored[at]
    if value is None or tensor is None or not _is_per_channel(tensor, value):
        return None
    rule = _ARITHMETIC.get((node.op_type, at))
    if rule is None:
        return None
    return _Affine(value, lambda: rule(tensor.numpy().astype(np.float64).reshape(-1)))


def _is_per_channel(tensor: ir.TensorProtocol, value: ir.Value) -> bool:
    shape, sizes = known_shape(value), tensor.shape.numpy()
    if shape is None or len(shape) < 2 or len(sizes) > len(shape) or value.dtype != tensor.dtype:
        return False
    padded = (1,) * (len(shape) - len(sizes)) + tuple(sizes)
    return padded[1] in {1, shape[1]} and all(size == 1 for size in (padded[0], *padded[2:]))


_ONE, _ZERO = np.ones(1), np.zeros(1)

_ARITHMETIC: dict[tuple[str, int], Callable[[np.ndarray], Channels]] = {
    ("Mul", 0): lambda c: (c, _ZERO),
    ("Mul", 1): lambda c: (c, _ZERO),
    ("Div", 1): lambda c: (1 / c, _ZERO),
    ("Add", 0): lambda c: (_ONE, c),
    ("Add", 1): lambda c: (_ONE, c),
    ("Sub", 0): lambda c: (-_ONE, c),
    ("Sub", 1): lambda c: (_ONE, -c),
}
"""Scale and shift, given the stored values, by operator and which of its inputs is stored."""

_AFFINE: dict[str, Callable[[ir.Node], _Affine | None]] = {
    "BatchNormalization": _normalisation,
    **dict.fromkeys(("Mul", "Div", "Add", "Sub"), _arithmetic),
}


# Taking it into the node before.

Factor = tuple[int, Callable[[np.ndarray], np.ndarray]]
"""Number of output channels, and what weights are multiplied with, given the scale of each channel."""


def _merge(rewriter: Rewriter, maker: ir.Node, node: ir.Node, affine: _Affine) -> None:
    """Put one node in the place of a node with weights and of the affine node behind it."""
    weight, bias = maker.inputs[1], maker.inputs[2] if len(maker.inputs) > 2 else None
    weights, biases = _stored(weight), _stored(bias)
    if weight is None or weights is None or (bias is not None and biases is None):
        return
    count, factor = _FACTORS[maker.op_type](maker, tuple(weights.shape.numpy()))
    bias_factor = maker.attributes.get_float("beta", 1.0)

    def new_weight() -> np.ndarray:
        scale, _ = affine.channels()
        return np.asarray(weights.numpy() * factor(np.broadcast_to(scale, count)))

    def new_bias() -> np.ndarray:
        scale, shift = affine.channels()
        old = 0.0 if biases is None else bias_factor * biases.numpy().astype(np.float64).reshape(-1)
        return np.broadcast_to(old * scale + shift, count)

    bias_name = bias.name if bias is not None else f"{weight.name}/bias"
    inputs = [
        maker.inputs[0],
        rewriter.computed(new_weight, name=weight.name, like=weights, shape=weights.shape.numpy()),
        rewriter.computed(new_bias, name=bias_name, like=weights, shape=[count]),
        *maker.inputs[3:],
    ]
    attributes = {name: value for name, value in attributes_of(maker).items() if name != "beta"}
    op_type = "Gemm" if maker.op_type == "MatMul" else maker.op_type
    rewriter.replace([maker, node], op_type, inputs, attributes)


def _can_take(maker: ir.Node) -> bool:
    """Return whether a node has weights and a bias by channel, on axis 1 of its only output."""
    if maker.domain or maker.op_type not in _FACTORS or _trains(maker):
        return False
    if maker.op_type == "MatMul":
        shapes = [known_shape(value) for value in maker.inputs]
        return all(shape is not None and len(shape) == 2 for shape in shapes)
    if maker.op_type == "Gemm" and len(maker.inputs) > 2 and maker.inputs[2] is not None:
        shape, out = known_shape(maker.inputs[2]), known_shape(maker.outputs[0])
        return shape is not None and out is not None and (1, *shape)[-2:] in {(1, out[1]), (1, 1), (1,)}
    return True


def _conv(maker: ir.Node, shape: tuple[int, ...]) -> Factor:
    return shape[0], lambda scale: scale.reshape(-1, *[1] * (len(shape) - 1))


def _conv_transpose(maker: ir.Node, shape: tuple[int, ...]) -> Factor:
    group, channels = maker.attributes.get_int("group", 1), shape[1]

    def factor(scale: np.ndarray) -> np.ndarray:
        rows = scale.reshape(group, channels).repeat(shape[0] // group, axis=0)
        return rows.reshape(*rows.shape, *[1] * (len(shape) - 2))

    return group * channels, factor


def _product(maker: ir.Node, shape: tuple[int, ...]) -> Factor:
    if maker.attributes.get_int("transB", 0):
        return shape[0], lambda scale: scale[:, None]
    return shape[1], lambda scale: scale[None, :]


def _gamma(maker: ir.Node, shape: tuple[int, ...]) -> Factor:
    return shape[0], lambda scale: scale


_FACTORS: dict[str, Callable[[ir.Node, tuple[int, ...]], Factor]] = {
    "BatchNormalization": _gamma,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _product,
    "MatMul": _product,
}

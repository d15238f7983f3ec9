"""Folding of constants and of layers into their neighbours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph import (
    DOMAIN,
    attributes_of,
    effects_of,
    find_operator,
    gradient_factors,
    known_shape,
    parameter_key,
    parameter_layout,
)
from netweave.graph.costs import MAX_COMPUTED, MAX_COMPUTED_IN_ALL, MAX_FOLLOWED
from netweave.graph.graph import has_subgraphs
from netweave.graph.parameters import source_keys, tag_parameter, tag_sources
from netweave.graph.passes.rewriting import Pass, Rewriter, evaluate_node, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from netweave.graph import Graph
    from netweave.graph.parameters import Step


_LOGGER = logging.getLogger(__name__)

MAX_DEPTH = 4
"""A constant behind more evaluations than this is computed at once: each may read the one before twice."""


@Pass
def fold(graph: Graph) -> None:
    """Replace what depends on stored values only by stored values.

    Also the Shape of a value whose sizes are known. Nodes with effects stay, and so does what would
    only grow. Large arrays are computed when they are read; an array that is only transposed or reshaped
    still names its stored array. A node that cannot be computed stays.
    """
    rewriter, room = Rewriter(graph), MAX_COMPUTED_IN_ALL
    depths: dict[int, int] = {}
    for node in list(graph.nodes):
        growth = _growth(node) if _is_constant(node) else None
        if growth is not None and growth <= room:
            room -= growth
            _fold_node(rewriter, node, depths)


def _is_constant(node: ir.Node) -> bool:
    if effects_of(node) or has_subgraphs(node) or node.domain not in {"", DOMAIN}:
        return False
    if any(value.is_graph_output() for value in node.outputs):
        return False
    if node.domain == "" and node.op_type in {"Shape", "Size"}:
        shape = known_shape(node.inputs[0])
        return shape is not None and None not in shape
    return all(value is None or _stored_fold(value) is not None for value in node.inputs)


def _stored_fold(value: ir.Value) -> ir.TensorProtocol | None:
    return value.const_value if value.is_initializer() and not value.is_graph_input() else None


def _count(value: ir.Value) -> int | None:
    shape = known_shape(value)
    if shape is None or None in shape:
        return None
    return int(np.prod([size or 0 for size in shape]))


def _growth(node: ir.Node) -> int | None:
    """Return how many elements the outputs of a node have beyond its inputs; None if it stays a node."""
    counts = [_count(value) for value in node.outputs if value.name]
    made = sum(count for count in counts if count is not None)
    read = sum(_count(value) or 0 for value in node.inputs if value is not None)
    if None in counts or made > max(read, MAX_COMPUTED):
        return None
    return max(0, made - read)


def _fold_node(rewriter: Rewriter, node: ir.Node, depths: dict[int, int]) -> None:
    """Replace a node by constants; one that cannot be computed stays, for the net's run to tell.

    Args:
        rewriter: Changes the graph.
        node: The node.
        depths: How many evaluations deep a tensor is that is computed when it is read, by its ``id``.
    """
    evaluate = _Evaluation(node, rewriter.graph.place_of(node))
    depth = 1 + max((depths.get(id(tensor), 0) for tensor in evaluate.inputs), default=0)
    wanted = [(index, value) for index, value in enumerate(node.outputs) if value.name and value.uses()]
    try:
        tensors = [_tensor(evaluate, index, value, is_eager=depth > MAX_DEPTH) for index, value in wanted]
    except RunError as error:
        _LOGGER.debug("not folded: %s", error)
        return
    for (_, value), tensor in zip(wanted, tensors, strict=True):
        if isinstance(tensor, ir.LazyTensor):
            depths[id(tensor)] = depth
        new = rewriter.replace_constant(value, tensor)
        _keep_parameter(node, new)
        _keep_sources(node, new)
    rewriter.graph.model.graph.remove(node, safe=True)


def _tensor(evaluate: _Evaluation, index: int, value: ir.Value, *, is_eager: bool) -> ir.TensorProtocol:
    if not is_eager and (_count(value) or 0) > MAX_FOLLOWED and value.dtype is not None:
        return _lazy(evaluate, index, value)
    return ir.Tensor(evaluate(index), name=value.name)


def _lazy(evaluate: _Evaluation, index: int, value: ir.Value) -> ir.LazyTensor:
    assert value.dtype is not None
    assert value.shape is not None
    return ir.LazyTensor(
        lambda: ir.Tensor(evaluate(index)), dtype=value.dtype, shape=ir.Shape(value.shape), name=value.name
    )


class _Evaluation:
    """A node whose inputs are stored, computed when it is asked for; later changes do not reach it."""

    def __init__(self, node: ir.Node, place: str) -> None:
        self._node = node
        self._place = place
        self.inputs = [None if value is None else value.const_value for value in node.inputs]
        self._attributes = attributes_of(node)
        self._sizes = known_shape(node.inputs[0]) if node.inputs else None
        self._proto = None if node.domain else ir.serde.serialize_node(node)

    def __call__(self, index: int) -> np.ndarray:
        """Return an output.

        Raises:
            RunError: It cannot be computed.
        """
        try:
            return np.asarray(self._outputs()[index], order="C")  # np.ascontiguousarray makes numbers lists
        except Exception as error:  # any operator's any error
            raise RunError(f"{self._place}: cannot be computed from stored arrays: {error}") from error

    def _outputs(self) -> Sequence[np.ndarray]:
        if self._proto is None:
            arrays = [tensor.numpy() for tensor in self.inputs if tensor is not None]
            return find_operator(self._node.op_type).forward(arrays, self._attributes)
        if self._proto.op_type in {"Shape", "Size"}:
            return [_shape(self._proto.op_type, self._sizes or (), self._attributes)]
        return evaluate_node(self._proto, [t.numpy() for t in self.inputs if t is not None])


def _shape(op_type: str, sizes: Sequence[int | None], attributes: dict[str, int]) -> np.ndarray:
    known = np.array([size or 0 for size in sizes], np.int64)
    if op_type == "Size":
        return np.asarray(known.prod(), np.int64)
    return known[attributes.get("start", 0) : attributes.get("end")]


def _keep_parameter(node: ir.Node, value: ir.Value) -> None:
    """Note on a transposed or reshaped array which stored array it still is."""
    source = node.inputs[0] if node.inputs else None
    key = parameter_key(source) if source is not None else None
    if source is None or key is None or node.op_type not in {"Transpose", "Reshape"}:
        return
    if node.op_type == "Transpose":
        rank = len(value.shape or ())
        step: Step = ("transpose", tuple(node.attributes.get_ints("perm", range(rank)[::-1])))
    else:
        step = ("reshape", tuple(size for size in known_shape(value) or () if size is not None))
    tag_parameter(value, key, [*parameter_layout(source), step])


def _keep_sources(node: ir.Node, value: ir.Value) -> None:
    """Note on a computed array which stored arrays it comes from, so that it is not taken for a setting."""
    keys = dict.fromkeys(key for source in node.inputs if source is not None for key in source_keys(source))
    if keys and parameter_key(value) is None:
        tag_sources(value, list(keys))


# torch has one kernel for both. It saves two passes over the activations forward, and four backward.


@dataclass(frozen=True, slots=True)
class ScaledNormalisation:
    """A normalisation and what scales and shifts its result, one number per channel.

    Attributes:
        norm: The BatchNormalization; its own scale is one and its own shift zero.
        scale: The factor of the Mul.
        shift: The summand of the Add; None if there is none.
        last: The node whose output is that of the whole.
    """

    norm: ir.Node
    scale: ir.Value
    shift: ir.Value | None
    last: ir.Node

    @property
    def inner(self) -> list[ir.Node]:
        """The nodes before the last."""
        nodes = [self.norm]
        if self.shift is not None:
            nodes += [node for node, _ in self.norm.outputs[0].uses()]
        return nodes


def scaled_normalisations(graph: Graph, wanted: Collection[ir.Value]) -> list[ScaledNormalisation]:
    """Return the normalisations of a graph that one kernel can scale and shift as well.

    Args:
        graph: The graph.
        wanted: Values that must be there by themselves.
    """
    scaled_norms = []
    for node in graph.nodes:
        if node.op_type != "BatchNormalization" or not _is_plain(node):
            continue
        scaled = _next(node, "Mul", wanted)
        if scaled is None:
            continue
        shifted = _next(scaled[0], "Add", wanted)
        last, shift = shifted or (scaled[0], None)
        scaled_norms.append(ScaledNormalisation(node, scaled[1], shift, last))
    return scaled_norms


def _is_plain(node: ir.Node) -> bool:
    """Return whether scale and shift of a normalisation are constants that do nothing."""
    return all(
        value is not None
        and value.const_value is not None
        and parameter_key(value) is None
        and bool(np.all(value.const_value.numpy() == neutral))
        for value, neutral in zip(node.inputs[1:3], (1, 0), strict=True)
    )


def _next(node: ir.Node, op_type: str, wanted: Collection[ir.Value]) -> tuple[ir.Node, ir.Value] | None:
    """Return the only reader of a node, if it is of a type, and its other input, if that is per channel."""
    made, *others = node.outputs
    users = [user for user, _ in made.uses()]
    if len(users) != 1 or made in wanted or any(value.uses() for value in others):
        return None
    if users[0].op_type != op_type or users[0].domain or gradient_factors(users[0]):
        return None
    given = [value for value in users[0].inputs if value is not made]
    rank = known_shape(made)
    if len(given) != 1 or given[0] is None or rank is None:
        return None
    shape = known_shape(given[0])
    channels = rank[1] if len(rank) > 1 else None
    fits = channels is not None and shape is not None and _per_channel(shape, len(rank), channels)
    return (users[0], given[0]) if fits else None


def _per_channel(shape: tuple[int | None, ...], rank: int, channels: int) -> bool:
    """Return whether a shape broadcasts one number per channel to a value of a rank."""
    full = (1,) * (rank - len(shape)) + shape
    return len(full) == rank and full == (1, channels, *[1] * (rank - 2))


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


def _stored_absorb(value: ir.Value | None) -> ir.TensorProtocol | None:
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def _normalisation(node: ir.Node) -> _Affine | None:
    value, *vectors = node.inputs
    tensors = [tensor for tensor in map(_stored_absorb, vectors) if tensor is not None]
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
    stored = [_stored_absorb(value) for value in node.inputs]
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
    weights, biases = _stored_absorb(weight), _stored_absorb(bias)
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

"""The known mismatches as changes of one net: what it would compute with another setting.

In a comparison of two nets, the settings of the other one are proposed. A dump has no settings: here each
setting that implementations often get wrong is tried with the values that they often have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.attributes import set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.explain.known_mismatches.mismatch import node_named, together
from netweave.comparison.metric import Signals, constants_of
from netweave.graph import Graph, attributes_of, known_shape

Change = Callable[[Graph], None]

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Variant:
    """A node that computes something else.

    Attributes:
        mismatch: Key of the mismatch.
        node: The node of A.
        cause: What B does, to follow "B's values are those of A with".
        fix: What to change in B.
        change: Makes A compute it.
        is_shared: The mistake is mostly made in all nodes of the kind at once.
    """

    mismatch: str
    node: ir.Node
    cause: str
    fix: str
    change: Change
    is_shared: bool = False


def variants_of(signals: Signals, nodes: Sequence[ir.Node], values: Arrays) -> Iterator[Variant]:
    """Yield what nodes may compute in another implementation.

    Args:
        signals: The net.
        nodes: The nodes that may be wrong, in topological order.
        values: What the net computes, by signal.
    """
    for node in nodes:
        for rule in RULES:
            yield from rule(signals, node, values)
    yield from _exchanged(signals, nodes)
    yield from _crossed(signals, nodes)


NORMS = frozenset(
    {
        "RMSNormalization",
        "LayerNormalization",
        "BatchNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "LpNormalization",
    }
)

EPSILONS = (0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def _array(node: ir.Node, index: int) -> np.ndarray | None:
    value = constants_of(node).get(index)
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _norms(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    if node.op_type not in NORMS:
        return
    own = attributes_of(node).get("epsilon", 1e-5)
    for epsilon in EPSILONS:
        if abs(epsilon - own) > 1e-3 * own:
            change = set_attribute(node.name, "epsilon", float(epsilon))
            yield Variant(
                "epsilon", node, f"eps {epsilon:g} in its norm", f"eps={own:g}", change, is_shared=True
            )
    scale = _array(node, 1)
    if scale is not None:
        for number, cause, fix in ((1, "1 + w in its norm", "w"), (-1, "w in the place of 1 + w", "1 + w")):
            change = replace_constant(node.name, 1, scale + scale.dtype.type(number))
            yield Variant("norm-offset", node, cause, f"multiply by {fix}", change, is_shared=True)
        ones = replace_constant(node.name, 1, np.ones_like(scale))
        yield Variant("weights", node, "a norm without its weight", "multiply by the weight", ones)


def _kinds_of_norms(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield norms of another kind: without the mean, without the bias, with the statistics of the batch."""
    read = signals.inputs_of(node)
    x = values.get(read[0]) if read else None
    if node.op_type == "LayerNormalization":
        bias = _array(node, 2)
        if bias is not None:
            zeros = replace_constant(node.name, 2, np.zeros_like(bias))
            yield Variant("missing-bias", node, "a norm without its bias", "add the bias", zeros)
        if x is not None:
            yield Variant(
                "norm-kind",
                node,
                "an RMS norm in the place of a layer norm",
                "subtract the mean",
                _become(node, "RMSNormalization", keep=2),
                is_shared=True,
            )
    if node.op_type == "BatchNormalization" and x is not None and x.ndim > 1:
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        statistics = [x.mean(axes), x.var(axes)]
        change = together(*(replace_constant(node.name, 3 + i, s) for i, s in enumerate(statistics)))
        yield Variant(
            "training-mode",
            node,
            "the statistics of the batch in its normalisation",
            "use the stored statistics (eval mode)",
            change,
            is_shared=True,
        )


THETAS = (10_000.0, 1_000_000.0, 500_000.0, 100_000.0, 50_000.0, 1_000.0)

FACTORS = (2.0, 4.0, 8.0, 0.5, 0.25, 0.125)


def _rotary(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    if node.op_type != "RotaryEmbedding":
        return
    interleaved = attributes_of(node).get("interleaved", 0)
    own, other = ("neighbours", "halves") if interleaved else ("halves", "neighbours")
    change = set_attribute(node.name, "interleaved", 1 - interleaved)
    cause, fix = f"rotary pairs taken as {other}", f"take the {own} of a head as pairs"
    yield Variant("rotary-pairing", node, cause, fix, change, is_shared=True)
    cosines, sines = _array(node, 1), _array(node, 2)
    if cosines is None or sines is None or cosines.shape[-2] < 2:
        return
    count = cosines.shape[-1]
    steps = np.arange(cosines.shape[-2])[:, None]
    own_angles = np.angle(np.take(cosines, 1, -2) + 1j * np.take(sines, 1, -2)).reshape(-1, count)[0]
    shape = known_shape(node.inputs[0]) if node.inputs[0] is not None else None
    head = shape[-1] if shape is not None and shape[-1] else 2 * count
    others = [*_other_angles(own_angles), *_other_parts(own_angles, head)]
    for key, cause, fix, frequencies, start in others:
        sizes = (*cosines.shape[:-1], len(frequencies))
        angles = np.broadcast_to((steps + start) * frequencies, sizes)
        tables = [np.cos(angles).astype(cosines.dtype), np.sin(angles).astype(sines.dtype)]
        changes = [replace_constant(node.name, i, table) for i, table in enumerate(tables, 1)]
        if len(frequencies) != count:
            features = 2 * len(frequencies)
            changes.append(set_attribute(node.name, "rotary_dim", features if features < head else 0))
        yield Variant(key, node, cause, fix, together(*changes), is_shared=True)


Angles = tuple[str, str, str, np.ndarray, int]
"""Other angles of a rotary embedding: key, cause, fix, the angle of each pair, the first position."""


def _other_angles(own: np.ndarray) -> Iterator[Angles]:
    count = len(own)
    for theta in THETAS:
        angles = theta ** (-np.arange(count) / count)
        if not np.allclose(angles, own, rtol=1e-3):
            yield "rotary-theta", f"theta {theta:,.0f} in its rotary embedding", "use A's theta", angles, 0
    for factor in FACTORS:
        cause = f"the angles of its rotary embedding times {factor:g}"
        yield "rotary-scaling", cause, "scale the frequencies as A does", own * factor, 0
    for start in (1, -1):
        yield "rotary-position", f"positions that start at {start}", "start at position 0", own, start
    yield "rotary-sign", "rotations in the other direction", "negate the sines", -own, 0
    yield "rotary-missing", "no rotary embedding", "rotate queries and keys", own * 0, 0


def _other_parts(own: np.ndarray, head: int) -> Iterator[Angles]:
    """Yield rotations of another part of the head, with the same angles or with the same base of them."""
    count = len(own)
    theta = float(own[1] ** -count) if count > 1 and own[1] > 0 else 0.0
    for features in (head, head // 2, head // 4):
        pairs = features // 2
        if pairs == count or pairs < 1 or not theta:
            continue
        cause = f"{features} features of a head of {head} rotated"
        fix = f"rotate {2 * count} features"
        yield "rotary-part", cause, fix, theta ** (-np.arange(pairs) / pairs), 0
        if pairs < count:
            yield "rotary-part", f"{cause}, by its first angles", fix, own[:pairs], 0


def _attention(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    if node.op_type != "Attention":
        return
    settings = attributes_of(node)
    query = known_shape(node.inputs[0]) if node.inputs[0] is not None else None
    size = query[-1] if query is not None and len(query) == 4 else None
    own = settings.get("scale", 1 / sqrt(size) if size else None)
    scales = {"1": 1.0} | ({"1 / head size": 1 / size, "1 / sqrt(head size)": 1 / sqrt(size)} if size else {})
    for said, scale in scales.items():
        if own is not None and abs(scale - own) > 1e-6:
            yield Variant(
                "attention-scale",
                node,
                f"scores scaled by {said}",
                f"scale by {own:g}",
                set_attribute(node.name, "scale", scale),
                is_shared=True,
            )
    if settings.get("softcap", 0.0):
        yield Variant(
            "attention-softcap",
            node,
            "no soft cap of its scores",
            f"softcap={settings['softcap']:g}",
            set_attribute(node.name, "softcap", 0.0),
            is_shared=True,
        )
    shapes = [known_shape(value) if value is not None else None for value in node.inputs[:2]]
    if any(shape is None or len(shape) < 2 or not shape[-2] for shape in shapes):
        return
    queries, keys = (int(shape[-2] or 1) for shape in shapes if shape is not None)
    for key, said, seen in _other_masks(queries, keys):
        yield Variant(key, node, said, "mask as A does", _Mask(node.name, seen), is_shared=True)


HIDDEN = -1e4
"""Scores below are those of steps that are masked."""

MAX_WINDOW = 16


def _other_masks(queries: int, keys: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield masks that implementations often have: key, words, and which keys each query sees."""
    steps = np.arange(keys)[None, :] - np.arange(queries)[:, None] - (keys - queries)
    yield "causal-mask", "no causal mask", steps < keys
    yield "causal-mask", "a causal mask", steps <= 0
    yield "causal-mask", "a mask that shows one later step", steps <= 1
    yield "causal-mask", "a mask that hides the step itself", (steps < 0) | (steps == steps.min())
    for width in range(1, min(queries, MAX_WINDOW + 1)):
        yield "sliding-window", f"a causal window of {width} steps", (steps <= 0) & (steps > -width)


def _masks(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other masks where scores are masked by a node of their own: a choice, or a sum."""
    if node.op_type not in {"Where", "Add"}:
        return
    masked = _array(node, 1)
    hides = masked is not None and masked.size == 1 and bool(masked.reshape(-1)[0] < HIDDEN)
    for index in constants_of(node):
        array = _array(node, index)
        if array is None or array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
            continue
        own = array.reshape(-1, *array.shape[-2:])[0]
        if own.dtype != np.bool_ and not (own < HIDDEN).any():
            continue
        for key, said, seen in _other_masks(*own.shape):
            if own.dtype == np.bool_:
                other = ~seen if hides else seen
            else:
                other = np.where(seen, own.dtype.type(0), own.min())
            if not np.array_equal(other, own):
                full = np.ascontiguousarray(np.broadcast_to(other, array.shape))
                change = replace_constant(node.name, index, full)
                yield Variant(key, node, said, "mask as A does", change, is_shared=True)


class _Mask:
    """Gives attention a mask of its own."""

    def __init__(self, node: str | None, seen: np.ndarray) -> None:
        self._node, self._seen = node, seen

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        node.attributes.pop("is_causal", None)
        if len(node.inputs) < 4:
            node.resize_inputs(4)
        hidden = np.where(self._seen, np.float32(0), np.float32(-1e30))
        replace_constant(self._node, 3, hidden)(graph)


ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ReLU": ("Relu", {}),
    "GELU (erf)": ("Gelu", {"approximate": "none"}),
    "GELU (tanh)": ("Gelu", {"approximate": "tanh"}),
    "SiLU": ("Swish", {"alpha": 1.0}),
    "quick GELU": ("Swish", {"alpha": 1.702}),
    "tanh": ("Tanh", {}),
    "sigmoid": ("Sigmoid", {}),
    "LeakyReLU(0.01)": ("LeakyRelu", {"alpha": 0.01}),
    "LeakyReLU(0.1)": ("LeakyRelu", {"alpha": 0.1}),
    "LeakyReLU(0.2)": ("LeakyRelu", {"alpha": 0.2}),
    "ELU": ("Elu", {"alpha": 1.0}),
    "hard swish": ("HardSwish", {}),
    "Mish": ("Mish", {}),
    "ReLU6": ("Clip", {}),
    "no activation": ("Identity", {}),
}

_FUNCTIONS = frozenset(op for op, _ in ACTIVATIONS.values()) - {"Identity"}


def _activations(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    is_swish = node.op_type == "Mul" and _is_gated_by_itself(node)
    if node.op_type not in _FUNCTIONS and not is_swish:
        return
    own = "SiLU" if is_swish else node.op_type
    for said, (op, settings) in ACTIVATIONS.items():
        if op != node.op_type or any(attributes_of(node).get(k) != v for k, v in settings.items()):
            yield Variant(
                "activation",
                node,
                f"{said} in the place of {own}",
                f"use {own}",
                _become(node, op, settings),
                is_shared=True,
            )


def _is_gated_by_itself(node: ir.Node) -> bool:
    x, y = node.inputs[:2]
    return any(
        gate is not None
        and (maker := gate.producer()) is not None
        and maker.op_type in {"Sigmoid", "HardSigmoid"}
        and maker.inputs[0] is other
        for gate, other in ((x, y), (y, x))
    )


class _Become:
    """Makes a node compute another function of its input."""

    def __init__(self, node: str | None, op: str, settings: Mapping[str, Any], keep: int) -> None:
        self._node, self._op, self._settings, self._keep = node, op, settings, keep

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        if node.op_type == "Mul" and node.inputs[0] is not None and node.inputs[1] is not None:
            maker = node.inputs[0].producer()
            if maker is not None and maker.op_type == "Sigmoid" and maker.inputs[0] is node.inputs[1]:
                node.replace_input_with(0, node.inputs[1])
        node.resize_inputs(self._keep)
        node.op_type, node.domain = self._op, ""
        for name in list(node.attributes):
            if self._op not in NORMS:
                node.attributes.pop(name)
        for name, value in self._settings.items():
            node.attributes[name] = ir.convenience.convert_attribute(name, value)
        if self._op == "Swish":
            _gate(graph, node, self._settings["alpha"])
        if self._op == "Clip":
            node.resize_inputs(3)
            for index, bound in ((1, 0.0), (2, 6.0)):
                replace_constant(self._node, index, np.asarray(bound, np.float32))(graph)


def _gate(graph: Graph, node: ir.Node, alpha: float) -> None:
    """Make a node multiply its input by the sigmoid of it, which no operator of this opset does alone."""
    node.attributes.clear()
    scaled = ir.Node("", "Mul", [node.inputs[0], None], name=f"{node.name}/scaled")
    gate = ir.Node("", "Sigmoid", [scaled.outputs[0]], name=f"{node.name}/gate")
    for new in (scaled, gate):
        new.outputs[0].name = f"{new.name}/out"
    graph.model.graph.insert_before(node, [scaled, gate])
    replace_constant(scaled.name, 1, np.asarray(alpha, np.float32))(graph)
    node.op_type = "Mul"
    node.resize_inputs(2)
    node.replace_input_with(1, gate.outputs[0])


def _become(node: ir.Node, op: str, settings: Mapping[str, Any] | None = None, *, keep: int = 1) -> Change:
    return _Become(node.name, op, settings or {}, keep)


def _windows(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other paddings of convolutions and poolings."""
    if node.op_type not in {"Conv", "MaxPool", "AveragePool"}:
        return
    settings = attributes_of(node)
    pads = list(settings.get("pads") or [0] * (2 * len(settings.get("kernel_shape", (1, 1)))))
    for said, other in _other_pads(pads, settings.get("strides", ()), is_pool=node.op_type != "Conv").items():
        change = set_attribute(node.name, "pads", other)
        yield Variant("padding", node, said, f"pad by {pads}", change)
    dilations = list(settings.get("dilations", ()))
    if max(dilations, default=1) > 1:
        change = set_attribute(node.name, "dilations", [1] * len(dilations))
        yield Variant("dilation", node, "no dilation", f"dilation={dilations}", change)


def _other_pads(pads: list[int], strides: Sequence[int], *, is_pool: bool) -> dict[str, list[int]]:
    half = len(pads) // 2
    first, last = pads[:half], pads[half:]
    others: dict[str, list[int]] = {}
    if any(pads):
        others["no padding"] = [0] * len(pads)
    elif is_pool:
        others["padding 1"] = [1] * len(pads)
    if first == last and any(first) and max(strides, default=1) > 1:
        others["SAME padding, more at the end"] = [n - 1 for n in first] + last
        others["padding at the beginning alone"] = first + [n - 1 for n in last]
    if first != last:
        others["the padding at the other ends"] = last + first
        others["equal padding at both ends"] = [max(p) for p in zip(first, last, strict=True)] * 2
    return {said: other for said, other in others.items() if min(other) >= 0}


def _poolings(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other roundings of the sizes of poolings, and means over other elements."""
    if node.op_type not in {"MaxPool", "AveragePool"}:
        return
    settings = attributes_of(node)
    said, own, other = ("down", "up", "floor") if settings.get("ceil_mode", 0) else ("up", "down", "ceil")
    change = set_attribute(node.name, "rounding", other)
    cause = f"the size of its pooling rounded {said}"
    yield Variant("pool-rounding", node, cause, f"round {own}", change, is_shared=True)
    if node.op_type == "AveragePool" and any(settings.get("pads") or ()):
        counted = settings.get("count_include_pad", 0)
        cause = "padding left out of its means" if counted else "padding counted in its means"
        change = set_attribute(node.name, "count_include_pad", 1 - counted)
        fix = f"count_include_pad={bool(counted)}"
        yield Variant("count-include-pad", node, cause, fix, change, is_shared=True)


def _numbers(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other constant factors, such as of embeddings, scores and logits."""
    if node.op_type not in {"Mul", "Div"}:
        return
    for index in constants_of(node):
        array = _array(node, index)
        if array is None or array.size != 1 or array.dtype.kind != "f" or not array.all():
            continue
        number = float(array.reshape(-1)[0])
        verb = "multiply" if node.op_type == "Mul" else "divide"
        others = {
            1.0: "no factor",
            number**2: "the square of the factor",
            1 / number: "the inverse of the factor",
        }
        for other, said in {**others, sqrt(abs(number)): "the root of the factor"}.items():
            change = replace_constant(node.name, index, np.full_like(array, other))
            cause = f"{said} {number:g} ({other:g})"
            yield Variant("factor", node, cause, f"{verb} by {number:g}", change, is_shared=True)


def _weights(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield arrays in other layouts, and biases left out."""
    if node.op_type not in {"Conv", "Gemm", "MatMul", "Add", "ConvTranspose"}:
        return
    for index in constants_of(node):
        array = _array(node, index)
        if array is None or array.dtype.kind != "f":
            continue
        if array.ndim <= 1 and (index == 2 or node.op_type == "Add"):
            zeros = replace_constant(node.name, index, np.zeros_like(array))
            yield Variant("missing-bias", node, "no bias", "add the bias", zeros)
        for key, said, fix, other in _other_layouts(array):
            yield Variant(key, node, said, fix, replace_constant(node.name, index, other.copy()))


def _other_layouts(array: np.ndarray) -> Iterator[tuple[str, str, str, np.ndarray]]:
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        yield "weights", "weights transposed", "transpose them", array.T
    if array.ndim != 4:
        return
    if max(array.shape[2:]) > 1:
        yield "weights", "filters flipped", "use them as A does", array[:, :, ::-1, ::-1]
    if array.shape[2] == array.shape[3] > 1:
        said = "filters with height and width swapped"
        yield "weights", said, "swap their last two axes", array.swapaxes(2, 3)
    if array.shape[1] == 3:
        said = "its input channels in reverse"
        yield "channel-order", said, "give it the channels in A's order (RGB or BGR)", array[:, ::-1]


def _heads(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other orders of heads that several queries share."""
    places = _array(node, 1) if node.op_type == "Gather" else None
    if places is None or places.ndim != 1:
        return
    count = int(places.max(initial=0)) + 1
    heads, times = np.arange(count), places.size // count
    orders = {"repeated in place": np.repeat(heads, times), "tiled": np.tile(heads, times)}
    for said, order in orders.items():
        if times > 1 and order.size == places.size and not np.array_equal(order, places):
            change = replace_constant(node.name, 1, order.astype(places.dtype))
            cause = f"the heads {said}"
            yield Variant("head-order", node, cause, "repeat them as A does", change, is_shared=True)


def _sums(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield sums that lack a term: a skipped residual; and operands the other way round."""
    read = signals.inputs_of(node)
    if node.op_type == "Add" and len(read) == 2 and not constants_of(node):
        for index in (0, 1):
            change = replace_constant(node.name, index, np.zeros((), np.float32))
            yield Variant(
                "missing-term",
                node,
                f"a sum without {_maker(signals, read[index])}",
                f"add {_maker(signals, read[index])}",
                change,
            )
    if node.op_type in {"Sub", "Div", "Concat"} and len(node.inputs) == 2:
        yield Variant(
            "input-order",
            node,
            "the operands the other way round",
            "exchange the operands",
            _Exchange(node.name),
        )


class _Exchange:
    """Exchanges the operands of a node."""

    def __init__(self, node: str | None) -> None:
        self._node = node

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        first, second = node.inputs[:2]
        node.replace_input_with(0, second)
        node.replace_input_with(1, first)


def _maker(signals: Signals, name: str) -> str:
    node = signals.producer.get(name)
    layers = signals.graph.layers_of(node) if node is not None else ()
    return f"the output of {layers[0].name!r}" if layers else f"{name!r}"


def _axes(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    if node.op_type not in {"Softmax", "LogSoftmax"} or not node.outputs[0].shape:
        return
    rank, own = len(node.outputs[0].shape), attributes_of(node).get("axis", -1)
    for axis in range(rank):
        if axis != own % rank:
            yield Variant(
                "softmax-axis",
                node,
                f"its softmax along axis {axis}",
                f"use axis {own}",
                set_attribute(node.name, "axis", axis),
            )


class _ExchangeValues:
    """Exchanges two values for all that read them."""

    def __init__(self, first: str, second: str) -> None:
        self._names = first, second

    def __call__(self, graph: Graph) -> None:
        values = graph.values()
        first, second = (values[name] for name in self._names)
        for node in graph.nodes:
            for index, value in enumerate(node.inputs):
                if value is first or value is second:
                    node.replace_input_with(index, second if value is first else first)


def _crossed(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield right values that are read in each other's place: gate and up, keys and queries."""
    read = signals.reads_from_outside(nodes)
    makers = [(name, signals.producer[name]) for name in read if name in signals.producer]
    linear = [(name, node) for name, node in makers if node.op_type in {"MatMul", "Gemm"}]
    for (first, a), (second, b) in combinations(linear, 2):
        shapes = [known_shape(node.outputs[0]) for node in (a, b)]
        if shapes[0] != shapes[1] or signals.inputs_of(a)[:1] != signals.inputs_of(b)[:1]:
            continue
        names = f"{_maker(signals, first)} and {_maker(signals, second)}"
        reader = next(node for node in nodes if first in signals.inputs_of(node))
        change = _ExchangeValues(first, second)
        yield Variant(
            "input-order", reader, f"{names} exchanged", f"exchange {names}, or their weights", change
        )


def _exchanged(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield layers that have each other's weights: gate and up, keys and queries."""
    rows = [node for node in nodes if node.op_type in {"MatMul", "Gemm"} and _array(node, 1) is not None]
    for first, second in combinations(rows, 2):
        a, b = _array(first, 1), _array(second, 1)
        if a is None or b is None or a.shape != b.shape or np.array_equal(a, b):
            continue
        if signals.inputs_of(first)[:1] != signals.inputs_of(second)[:1]:
            continue
        change = together(replace_constant(first.name, 1, b), replace_constant(second.name, 1, a))
        names = " and ".join(
            layers[0].name if (layers := signals.graph.layers_of(n)) else str(n.name) for n in (first, second)
        )
        yield Variant("weights", first, f"the weights of {names} exchanged", "exchange them", change)


RULES: tuple[Callable[[Signals, ir.Node, Arrays], Iterator[Variant]], ...] = (
    _norms,
    _kinds_of_norms,
    _rotary,
    _attention,
    _masks,
    _activations,
    _windows,
    _poolings,
    _numbers,
    _weights,
    _heads,
    _sums,
    _axes,
)
"""A rule: yields the variants of one node."""

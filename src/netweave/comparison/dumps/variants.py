"""The known mismatches as changes of one net: what it would compute with another setting.

In a comparison of two nets, the settings of the other one are proposed. A dump has no settings: here each
setting that implementations often get wrong is tried with the values that they often have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.comparison.dumps.sequences import attention, experts, heads, joined_heads, masks, rotary
from netweave.comparison.dumps.structure import (
    exchanges,
    flattenings,
    other_inputs,
    places_of_norms,
    products,
    sums,
)
from netweave.comparison.dumps.variant import NORMS, Arrays, Bypass, Change, Variant, stored_array
from netweave.comparison.explain.known_mismatches.attributes import set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.explain.known_mismatches.mismatch import node_named, together
from netweave.comparison.metric import Signals, constants_of
from netweave.graph import Graph, attributes_of


def variants_of(
    signals: Signals, nodes: Sequence[ir.Node], values: Arrays, right: Sequence[str]
) -> Iterator[Variant]:
    """Yield what nodes may compute in another implementation.

    Args:
        signals: The net.
        nodes: The nodes that may be wrong, in topological order.
        values: What the net computes, by signal.
        right: Signals that the other implementation computes as well, in topological order.
    """
    for node in nodes:
        for rule in RULES:
            yield from rule(signals, node, values)
        yield from other_inputs(signals, node, values, right)
    yield from places_of_norms(signals, nodes)
    yield from exchanges(signals, nodes)


EPSILONS = (0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


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
    scale = stored_array(node, 1)
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
        bias = stored_array(node, 2)
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
    if node.op_type == "RMSNormalization":
        yield Variant(
            "norm-kind",
            node,
            "the mean subtracted, as LayerNorm does and RMSNorm does not",
            "divide by the root mean square alone",
            _become(node, "LayerNormalization", keep=2),
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
    "softplus": ("Softplus", {}),
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
                Bypass(node.name) if op == "Identity" and not is_swish else _become(node, op, settings),
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
    for steps in (1, 2) if max(strides, default=1) == 1 and not is_pool else ():
        moved = [n - steps for n in first] + [n + steps for n in last]
        others[f"the window {steps} later (padding {moved})"] = moved
    return {said: other for said, other in others.items() if min(other) >= 0}


def _poolings(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other roundings of the sizes of poolings, and means over other elements."""
    if node.op_type not in {"MaxPool", "AveragePool"}:
        return
    settings = attributes_of(node)
    kinds = {"MaxPool": ("AveragePool", "average"), "AveragePool": ("MaxPool", "maximum")}
    kind, said = kinds[node.op_type]
    window = {key: x for key, x in settings.items() if key in {"kernel_shape", "strides", "pads"}}
    for counted in {0, int(kind == "AveragePool" and any(settings.get("pads") or ()))}:
        change = _become(node, kind, window | ({"count_include_pad": 1} if counted else {}), keep=1)
        cause = f"{said} pooling in the place of its own"
        yield Variant("operator", node, cause, f"use {node.op_type}", change)
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
        array = stored_array(node, index)
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
        array = stored_array(node, index)
        if array is None or array.dtype.kind != "f":
            continue
        if array.size == max(array.shape, default=1) and (index == 2 or node.op_type == "Add"):
            zeros = replace_constant(node.name, index, np.zeros_like(array))
            yield Variant("missing-bias", node, "no bias", "add the bias", zeros)
        if node.op_type == "Conv" and array.ndim == 3 and array.shape[2] > 1:
            flipped = replace_constant(node.name, index, array[:, :, ::-1].copy())
            yield Variant("weights", node, "filters flipped", "use them as A does", flipped)
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


def _decays(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other forms of the decays of a state space, which are stored as logarithms."""
    for index in constants_of(node) if node.op_type == "Mul" else ():
        array = stored_array(node, index)
        if array is None or array.ndim < 2 or array.dtype.kind != "f" or not (array < 0).all():
            continue
        others = {"A_log in the place of exp(A_log)": -np.log(-array), "decays of the other sign": -array}
        for said, other in others.items():
            change = replace_constant(node.name, index, other)
            yield Variant("state-decay", node, said, "use -exp(A_log)", change, is_shared=True)


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


RULES: tuple[Callable[[Signals, ir.Node, Arrays], Iterator[Variant]], ...] = (
    _norms,
    _kinds_of_norms,
    rotary,
    attention,
    masks,
    _activations,
    _windows,
    _poolings,
    _numbers,
    _weights,
    heads,
    joined_heads,
    experts,
    sums,
    products,
    _decays,
    flattenings,
    _axes,
)
"""A rule: yields the variants of one node."""

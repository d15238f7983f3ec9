"""Changes of how layers are put together: norms elsewhere, other inputs, missing terms, exchanged weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import onnx_ir as ir

from netweave.comparison.dumps.variant import NORMS, Arrays, Bypass, Variant, maker_of, stored_array
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.explain.known_mismatches.mismatch import node_named, together
from netweave.comparison.metric import Signals, constants_of, is_view
from netweave.graph import Graph, known_shape

MAX_INPUTS = 8
"""Earlier tensors that are tried as the input of a norm, the latest."""

MAX_NORMS = 12
"""Other norms whose weights are tried in the place of one's own, the nearest."""


def places_of_norms(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield norms that are left out, or that stand behind or before what is computed next to them."""
    for place, norm in enumerate(nodes):
        if norm.op_type not in NORMS or norm.outputs[0].name is None:
            continue
        scale, out = stored_array(norm, 1), norm.outputs[0].name
        features = f" of {scale.size} features" if scale is not None else ""
        without = Bypass(norm.name)
        said, fix = f"no norm{features} ({norm.op_type})", "normalise as A does"
        yield Variant("missing-layer", norm, said, fix, without, is_shared=True)
        (before,) = signals.inputs_of(norm)[:1] or ("",)
        for other in nodes[place + 1 :]:
            read = signals.inputs_of(other)
            if out in read and other.op_type == "RotaryEmbedding":
                said = "its norm behind the rotary embedding"
            elif out in read and other.op_type == "Add":
                said = "a norm of the residual sum in the place of a norm of its term"
            elif before in read and other.op_type == "Add" and norm.op_type != "BatchNormalization":
                said = "its norm behind the residual sum (post-norm)"
            else:
                continue
            change = together(without, _NormBehind(norm, other.name))
            yield Variant("layer-order", norm, said, fix, change, is_shared=True, is_local=False)
        maker = signals.producer.get(before)
        if maker is not None and maker.op_type == "Add":
            for term in signals.inputs_of(maker):
                change = _NormBefore(norm, maker.name, term)
                said = "its norm before the layer and not behind the residual sum (pre-norm)"
                yield Variant("layer-order", norm, said, fix, change, is_shared=True, is_local=False)


class _NormBehind:
    """Computes a norm behind another node, whose own output nothing reads then."""

    def __init__(self, norm: ir.Node, node: str | None) -> None:
        self._norm, self._node = norm, node
        self._attributes = dict(norm.attributes)
        self._operator = norm.op_type, norm.domain

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        name = f"{node.name}/plain"
        plain = ir.Node(node.domain, node.op_type, node.inputs, list(node.attributes.values()), name=name)
        plain.outputs[0].name = name
        graph.model.graph.insert_before(node, [plain])
        node.op_type, node.domain = self._operator
        node.attributes.clear()
        node.attributes.update(self._attributes)
        node.resize_inputs(len(self._norm.inputs))
        node.replace_input_with(0, plain.outputs[0])
        _give_constants(graph, node, self._norm)


class _NormBefore:
    """Leaves a norm out, and computes it of a value for all that read this, but for a sum."""

    def __init__(self, norm: ir.Node, total: str | None, term: str) -> None:
        self._norm, self._total, self._term = norm, total, term

    def __call__(self, graph: Graph) -> None:
        value = graph.values()[self._term]
        uses = [use for use in value.uses() if use.node.name != self._total]
        made = ir.Node(
            self._norm.domain,
            self._norm.op_type,
            [value, *[None] * (len(self._norm.inputs) - 1)],
            list(self._norm.attributes.values()),
            name=f"{self._norm.name}/before",
        )
        made.outputs[0].name = made.name
        first = min(graph.nodes.index(use.node) for use in uses)
        graph.model.graph.insert_before(graph.nodes[first], [made])
        for use in uses:
            use.node.replace_input_with(use.idx, made.outputs[0])
        _give_constants(graph, made, self._norm)
        Bypass(self._norm.name)(graph)


def _give_constants(graph: Graph, node: ir.Node, norm: ir.Node) -> None:
    for index in range(1, len(norm.inputs)):
        array = stored_array(norm, index)
        if array is not None:
            replace_constant(node.name, index, array)(graph)


class _Instead:
    """Gives all that read a value another array."""

    def __init__(self, value: str, array: np.ndarray) -> None:
        self._value, self._array = value, array

    def __call__(self, graph: Graph) -> None:
        for use in list(graph.values()[self._value].uses()):
            replace_constant(use.node.name, use.idx, self._array)(graph)


RESIDUALS = frozenset({"Add", "Gather", "Mul", *NORMS})
"""Operators that compute the tensors that blocks read."""

TERMS = frozenset({"Add", "MatMul", "Gemm", "Mul", *NORMS})
"""Operators that compute the terms that blocks add."""


def other_inputs(signals: Signals, node: ir.Node, values: Arrays, right: Sequence[str]) -> Iterator[Variant]:
    """Yield norms of other tensors than A's: of an earlier one, where layers are left out, or of a sum.

    Of what reads a norm, what that reads.
    """
    own = str(node.inputs[0].name) if node.inputs and node.inputs[0] is not None else ""
    for read in signals.inputs_of(node):
        norm = signals.producer.get(read)
        (before,) = (signals.inputs_of(norm)[:1] if norm is not None and norm.op_type in NORMS else ()) or (
            "",
        )
        if read in right and before in values and values[before].shape == values[read].shape:
            cause = f"{maker_of(signals, before)} read before its norm"
            given = _Instead(read, values[before])
            yield Variant("missing-layer", node, cause, "read the output of the norm", given, is_local=False)
    if node.op_type not in NORMS or own not in values:
        return
    alike = [n for n in right if n in values and values[n].shape == values[own].shape and n != own]
    alike = [n for n in alike if n not in signals.outputs_of(node)]
    made = {name: signals.producer[name].op_type for name in alike if name in signals.producer}
    name = maker_of(signals, str(node.outputs[0].name))
    earlier = [n for n in alike if made.get(n, "Add") in RESIDUALS][-MAX_INPUTS:]
    for other in earlier:
        change = replace_constant(node.name, 0, values[other])
        cause = f"{name} computed of {maker_of(signals, other)}, without the layers between"
        yield Variant("missing-layer", node, cause, f"compute it of {maker_of(signals, own)}", change)
    for term in [n for n in alike if made.get(n, "") in TERMS and own in right][-MAX_INPUTS:]:
        change = replace_constant(node.name, 0, values[own] + values[term])
        cause = f"{name} reading a serial residual, to which {maker_of(signals, term)} is added"
        yield Variant("input", node, cause, f"compute it of {maker_of(signals, own)}", change)


def _other_norms(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield norms with the weights of another one."""
    norms = [node for node in signals.nodes if node.op_type in NORMS and stored_array(node, 1) is not None]
    place = {id(node): i for i, node in enumerate(norms)}
    for node in nodes:
        own, i = stored_array(node, 1), place.get(id(node))
        if own is None or i is None:
            continue
        for other in sorted(norms, key=lambda n: abs(place[id(n)] - place[id(node)]))[1 : MAX_NORMS + 1]:
            arrays = {k: stored_array(other, k) for k in range(1, len(other.inputs))}
            given = {k: x for k, x in arrays.items() if x is not None}
            if given[1].shape != own.shape or np.array_equal(given[1], own):
                continue
            change = together(*(replace_constant(node.name, k, x) for k, x in given.items()))
            names = [maker_of(signals, str(n.outputs[0].name)) for n in (node, other)]
            cause = f"the weights of the norm of {names[1]} in that of {names[0]}"
            yield Variant("weights", node, cause, "give each norm its own weights", change)


def flattenings(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield images that are flattened with height and width exchanged, as patches are."""
    for name in signals.inputs_of(node):
        maker, x = signals.producer.get(name), values.get(name)
        is_image = maker is not None and maker.op_type == "Conv" and x is not None and x.ndim == 4
        if x is not None and is_image and x.shape[2] == x.shape[3] and any(map(_is_seen, node.inputs)):
            cause = f"height and width of {maker_of(signals, name)} exchanged, in another order of patches"
            yield Variant(
                "flatten-order", node, cause, "flatten as A does", _Transposes(name), is_local=False
            )


def _is_seen(value: ir.Value | None) -> bool:
    maker = value.producer() if value is not None else None
    return maker is not None and is_view(maker)


class _Transposes:
    """Exchanges the last two axes of a value for all that read it."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, graph: Graph) -> None:
        value = graph.values()[self._value]
        uses = list(value.uses())
        perm = ir.AttrInt64s("perm", [0, 1, 3, 2])
        made = ir.Node("", "Transpose", [value], [perm], name=f"{self._value}/transposed")
        made.outputs[0].name = made.name
        graph.model.graph.insert_before(graph.nodes[0], [made])
        for use in uses:
            use.node.replace_input_with(use.idx, made.outputs[0])


def sums(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield sums that lack a term: a skipped residual; and operands the other way round."""
    read = signals.inputs_of(node)
    for index in constants_of(node) if node.op_type == "Add" else ():
        array = stored_array(node, index)
        if array is not None and array.ndim > 1 and array.dtype.kind == "f":
            zeros = replace_constant(node.name, index, np.zeros_like(array))
            cause = "a sum without its stored term, such as positions"
            yield Variant("missing-term", node, cause, "add the stored term", zeros)
    if node.op_type == "Add" and len(read) == 2 and not constants_of(node):
        for index in (0, 1):
            change = replace_constant(node.name, index, np.zeros((), np.float32))
            yield Variant(
                "missing-term",
                node,
                f"a sum without {maker_of(signals, read[index])}",
                f"add {maker_of(signals, read[index])}",
                change,
            )
    for index, name in enumerate(read) if node.op_type == "Add" and len(read) == 2 else ():
        for norm in signals.consumers.get(name, ()):
            out = str(norm.outputs[0].name)
            if norm.op_type in NORMS and out in values and values[out].shape == values[name].shape:
                change = replace_constant(node.name, index, values[out])
                cause = f"{maker_of(signals, out)} as the residual, which is taken behind the norm"
                yield Variant("layer-order", node, cause, "add what the norm reads", change)
    if node.op_type in {"Sub", "Div", "Concat"} and len(node.inputs) == 2:
        yield Variant(
            "input-order",
            node,
            f"the operands of its {node.op_type} in the other order",
            "exchange the operands",
            _Exchange(node.name),
        )


def products(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield products that lack a factor, such as a gate."""
    read = signals.inputs_of(node)
    makers = [signals.producer.get(name) for name in read]
    is_gated_by_itself = any(
        maker is not None and other in signals.inputs_of(maker)
        for maker, other in zip(makers, reversed(read), strict=True)
    )
    if node.op_type != "Mul" or len(read) != 2 or len(node.inputs) != 2 or is_gated_by_itself:
        return
    if any(name not in values or values[name].ndim < 3 for name in read):
        return
    for index, name in enumerate(read):
        change = replace_constant(node.name, index, np.ones((), np.float32))
        cause = f"a product without its factor, {maker_of(signals, name)}"
        yield Variant("missing-term", node, cause, f"multiply by {maker_of(signals, name)}", change)


class _Exchange:
    """Exchanges the operands of a node."""

    def __init__(self, node: str | None) -> None:
        self._node = node

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        first, second = node.inputs[:2]
        node.replace_input_with(0, second)
        node.replace_input_with(1, first)


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


def exchanges(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield values that are read in each other's place, and weights that layers have in exchange."""
    yield from _exchanged_weights(signals, nodes)
    yield from _exchanged_values(signals, nodes)
    yield from _other_norms(signals, nodes)


def _exchanged_values(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield right values that are read in each other's place: gate and up, keys and queries."""
    read = [name for name in signals.reads_from_outside(nodes) if name in signals.producer]
    linear = [(name, node) for name in read if (node := signals.producer[name]).op_type in {"MatMul", "Gemm"}]
    split = {id(node): node for node in nodes if node.op_type == "Split"}
    split |= {id(node): node for name in read if (node := signals.producer[name]).op_type == "Split"}
    linear += [(name, node) for node in split.values() for name in signals.outputs_of(node)]
    for (first, a), (second, b) in combinations(linear, 2):
        shapes = [
            known_shape(next(v for v in node.outputs if v.name == n)) for n, node in ((first, a), (second, b))
        ]
        if shapes[0] != shapes[1] or signals.inputs_of(a)[:1] != signals.inputs_of(b)[:1]:
            continue
        names = f"{maker_of(signals, first)} and {maker_of(signals, second)}"
        if a is b:
            i, j = (signals.outputs_of(a).index(name) + 1 for name in (first, second))
            names = f"parts {i} and {j} of {maker_of(signals, first)}"
        reader = next((node for node in nodes if {first, second}.intersection(signals.inputs_of(node))), None)
        if reader is None:
            continue
        change = _ExchangeValues(first, second)
        yield Variant(
            "input-order",
            reader,
            f"{names} in the other order" if a is b else f"{names} exchanged",
            f"exchange {names}, or their weights",
            change,
            is_local=False,
        )


def _exchanged_weights(signals: Signals, nodes: Sequence[ir.Node]) -> Iterator[Variant]:
    """Yield layers that have each other's weights: gate and up, keys and queries."""
    rows = [
        node for node in nodes if node.op_type in {"MatMul", "Gemm"} and stored_array(node, 1) is not None
    ]
    for first, second in combinations(rows, 2):
        a, b = stored_array(first, 1), stored_array(second, 1)
        if a is None or b is None or a.shape != b.shape or np.array_equal(a, b):
            continue
        if signals.inputs_of(first)[:1] != signals.inputs_of(second)[:1]:
            continue
        change = together(replace_constant(first.name, 1, b), replace_constant(second.name, 1, a))
        names = " and ".join(
            layers[0].name if (layers := signals.graph.layers_of(n)) else str(n.name) for n in (first, second)
        )
        yield Variant(
            "weights", first, f"the weights of {names} exchanged", "exchange them", change, is_local=False
        )

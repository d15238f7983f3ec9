"""Fusion of layer normalization, of its form without a mean, and of GELU."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import DOMAIN, attributes_of, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, prune
from netweave.graph.passes.views import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from netweave.graph import Graph


@Pass
def fuse_layer_norm(graph: Graph) -> None:
    """Make one LayerNormalization of the nodes that compute ``(x - mean) / sqrt(variance + eps) * g + b``.

    The mean and the variance are over the last axes. Also TensorFlow's order of it, with the scale taken into
    the inverse deviation and the shift into the mean: ``x * f + (b - mean * f)`` with ``f = g / deviation``.
    """
    _fuse(graph, _deviation)


@Pass
def fuse_rms_norm(graph: Graph) -> None:
    """Make one RMSNormalization of the nodes that compute ``x / sqrt(mean(x ** 2) + eps) * g``."""
    _fuse(graph, _root_mean_square)


def _fuse(graph: Graph, read: Callable[[ir.Node], _Deviation | None]) -> None:
    rewriter = Rewriter(graph)
    is_changed = False
    for node in list(graph.nodes):
        deviation = read(node)
        if deviation is None:
            continue
        for normalised in _normalised(deviation):
            _replace(rewriter, deviation, normalised)
            is_changed = True
    if is_changed:
        prune.edit(graph)


@dataclass(frozen=True, slots=True)
class _Deviation:
    """The deviation of a value over its last axes, from its mean or from 0.

    Attributes:
        x: The value.
        mean: Its mean; None for 0.
        value: The deviation, or one divided by it.
        is_inverse: Whether it is one divided by it.
        sizes: Sizes of the last axes.
        epsilon: What is added to the variance.
        nodes: The nodes that compute it.
    """

    x: ir.Value
    mean: ir.Value | None
    value: ir.Value
    is_inverse: bool
    sizes: tuple[int, ...]
    epsilon: float
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True)
class _Normalised:
    """A normalised value.

    Attributes:
        result: The value.
        scale: What it is multiplied by.
        shift: What is added to it.
        nodes: The nodes behind the deviation.
    """

    result: ir.Value
    scale: ir.Value | None
    shift: ir.Value | None
    nodes: tuple[ir.Node, ...]


# The deviation.

MEANS = ("ReduceMean", "GlobalAveragePool")
"""Operators that take a mean over axes, which stay as 1; pooling of (N, T, C) is over the last axis."""


def _deviation(root: ir.Node) -> _Deviation | None:
    """Return the deviation that a root computes: ``sqrt(mean((x - mean(x)) ** 2) + eps)``."""
    exponent = _exponent(root)
    inner = _maker(root.inputs[0], "Add") if exponent is not None else None
    if inner is None or exponent is None:
        return None
    for variance, number in (tuple(inner.inputs), tuple(reversed(inner.inputs))):
        epsilon, (mean_of_squares, *views) = number_of(number), _mean_behind(variance)
        square = _square(mean_of_squares)
        if epsilon is None or mean_of_squares is None or square is None:
            continue
        squared, difference = square
        x, mean = difference.inputs
        sizes = _last_sizes(mean_of_squares, is_restored=bool(views))
        mean_node = _maker(mean, *MEANS)
        if x is None or mean is None or mean_node is None or mean_node.inputs[0] is not x:
            return None
        if sizes is None or sizes != _last_sizes(mean_node):
            return None
        value, is_inverse, last = _inverted(root, is_inverse=exponent < 0)
        nodes = (mean_node, difference, squared, mean_of_squares, *views, inner, *last)
        return _Deviation(x, mean, value, is_inverse, sizes, epsilon, nodes)
    return None


def _mean_behind(value: ir.Value | None) -> tuple[ir.Node | None, *tuple[ir.Node, ...]]:
    """Return the node that takes a mean, and those that put its axes of size 1 back, as behind ``x.var``."""
    view = _maker(value, "Reshape", "Unsqueeze")
    mean = _maker(view.inputs[0], *MEANS) if view is not None else None
    if view is None or mean is None:
        return (_maker(value, *MEANS),)
    kept, shape = known_shape(mean.inputs[0]), known_shape(view.outputs[0])
    is_restored = kept is not None and shape is not None and len(kept) == len(shape) and shape[-1] == 1
    return (mean, view) if is_restored else (None,)


def _root_mean_square(root: ir.Node) -> _Deviation | None:
    """Return the deviation from 0 that a root computes: ``sqrt(mean(x ** 2) + eps)``."""
    exponent = _exponent(root)
    inner = _maker(root.inputs[0], "Add") if exponent is not None else None
    if inner is None or exponent is None:
        return None
    for square, number in (tuple(inner.inputs), tuple(reversed(inner.inputs))):
        epsilon, mean = number_of(number), _maker(square, *MEANS)
        squared = _maker(mean.inputs[0], "Mul", "Pow") if mean is not None else None
        x, sizes = (
            (squared.inputs[0], _last_sizes(mean))
            if squared is not None and mean is not None
            else (None, None)
        )
        if epsilon is None or mean is None or squared is None or x is None or sizes is None:
            continue
        if not _is_square(squared):
            continue
        value, is_inverse, last = _inverted(root, is_inverse=exponent < 0)
        return _Deviation(x, None, value, is_inverse, sizes, epsilon, (squared, mean, inner, *last))
    return None


def _inverted(root: ir.Node, *, is_inverse: bool) -> tuple[ir.Value, bool, tuple[ir.Node, ...]]:
    """Return a root, or its inverse if that alone is read, whether it is inverse, and its nodes."""
    made = root.outputs[0]
    reciprocal = next((use.node for use in made.uses() if use.node.op_type == "Reciprocal"), None)
    if reciprocal is None or len(made.uses()) > 1 or is_inverse:
        return made, is_inverse, (root,)
    return reciprocal.outputs[0], True, (root, reciprocal)


def _exponent(node: ir.Node) -> float | None:
    """Return the exponent of a root: 0.5, or -0.5 of an inverse one."""
    if node.domain or node.op_type not in {"Pow", "Sqrt"}:
        return None
    exponent = 0.5 if node.op_type == "Sqrt" else number_of(node.inputs[1])
    return exponent if exponent in {0.5, -0.5} else None


def _square(mean_of_squares: ir.Node | None) -> tuple[ir.Node, ir.Node] | None:
    """Return the node that squares what a mean is taken of, and the difference that it squares."""
    node = _maker(mean_of_squares.inputs[0], "Mul", "Pow") if mean_of_squares is not None else None
    difference = _maker(node.inputs[0], "Sub") if node is not None else None
    return (node, difference) if node is not None and difference is not None and _is_square(node) else None


def _is_square(node: ir.Node) -> bool:
    return node.inputs[1] is node.inputs[0] if node.op_type == "Mul" else number_of(node.inputs[1]) == 2


def _last_sizes(mean: ir.Node, *, is_restored: bool = False) -> tuple[int, ...] | None:
    """Return the sizes of the axes that a mean is taken over, if these are the last ones and stay as 1.

    Args:
        mean: The node that takes it.
        is_restored: Whether a node behind it puts the last axis back; the mean must be over this alone.
    """
    shape = known_shape(mean.inputs[0])
    if mean.op_type == "GlobalAveragePool":
        sizes = [size for size in shape[2:] if size is not None] if shape is not None else []
        return tuple(sizes) if shape is not None and len(sizes) == len(shape) - 2 > 0 else None
    axes = mean.inputs[1].const_value if len(mean.inputs) > 1 and mean.inputs[1] is not None else None
    if shape is None or axes is None or bool(attributes_of(mean).get("keepdims", 1)) == is_restored:
        return None
    places = sorted(int(axis) % len(shape) for axis in np.atleast_1d(axes.numpy()))
    sizes = [size for size in shape[places[0] :] if size is not None] if places else []
    if is_restored and len(sizes) != 1:
        return None
    return tuple(sizes) if places and len(sizes) == len(places) == len(shape) - places[0] else None


def _maker(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and not node.domain and node.op_type in op_types else None


# What is normalised by it.


@dataclass(frozen=True, slots=True)
class _Factor:
    """An inverse deviation, which may hold the scale already.

    Attributes:
        value: The value.
        scale: What it is multiplied by.
        nodes: The nodes behind the deviation.
    """

    value: ir.Value
    scale: ir.Value | None
    nodes: tuple[ir.Node, ...]


def _normalised(found: _Deviation) -> Iterator[_Normalised]:
    """Yield the values that are normalised by a deviation."""
    if not found.is_inverse:
        for node, other in _products(found.value, "Div"):
            yield from _divided(found, node, other)
        return
    for factor in _factors(found):
        for node, other in _products(factor.value, "Mul"):
            yield from _multiplied(found, factor, node, other)


def _products(value: ir.Value, op_type: str) -> list[tuple[ir.Node, ir.Value]]:
    """Return the products, or the quotients, that read a value, each with its other input."""
    uses = [(use.node, use.node.inputs[1 - use.idx]) for use in value.uses() if use.node.op_type == op_type]
    return [(node, other) for node, other in uses if not node.domain and other is not None]


def _factors(found: _Deviation) -> Iterator[_Factor]:
    """Yield an inverse deviation, and its products with a scale."""
    yield _Factor(found.value, None, ())
    for node, other in _products(found.value, "Mul"):
        if _fits(other, found.sizes):
            yield _Factor(node.outputs[0], other, (node,))


def _divided(found: _Deviation, node: ir.Node, other: ir.Value) -> Iterator[_Normalised]:
    if found.mean is None:
        if other is found.x:
            yield _scaled(_Normalised(node.outputs[0], None, None, (node,)), found.sizes, ("Mul",))
        return
    difference = _difference(found, other)
    if difference is not None:
        yield _scaled(_Normalised(node.outputs[0], None, None, (difference, node)), found.sizes)


def _multiplied(found: _Deviation, factor: _Factor, node: ir.Node, other: ir.Value) -> Iterator[_Normalised]:
    op_types = ("Mul", "Add") if factor.scale is None else ("Add",)
    if found.mean is None and other is found.x:
        normalised = _Normalised(node.outputs[0], factor.scale, None, (*factor.nodes, node))
        yield _scaled(normalised, found.sizes, op_types[:-1])
    elif (difference := _difference(found, other)) is not None:
        nodes = (difference, *factor.nodes, node)
        yield _scaled(_Normalised(node.outputs[0], factor.scale, None, nodes), found.sizes, op_types)
    elif other is found.x and (shifted := _shifted(found, factor, node)) is not None:
        yield shifted


def _difference(found: _Deviation, value: ir.Value) -> ir.Node | None:
    """Return the node that subtracts the mean, if it makes a value."""
    node = _maker(value, "Sub")
    if node is None or node.inputs[0] is not found.x:
        return None
    return node if node.inputs[1] is found.mean or _is_mean_again(node.inputs[1], found) else None


def _is_mean_again(value: ir.Value | None, found: _Deviation) -> bool:
    """Return whether a value is the mean of what is normalised, computed once more."""
    own, mean = _maker(value, *MEANS), found.mean.producer() if found.mean is not None else None
    if own is None or mean is None or own.op_type != mean.op_type or own.inputs[0] is not found.x:
        return False
    return _last_sizes(own) == found.sizes


def _scaled(
    normalised: _Normalised, sizes: tuple[int, ...], op_types: Sequence[str] = ("Mul", "Add")
) -> _Normalised:
    """Take in the scale and then the shift behind a normalised value."""
    for op_type in op_types:
        following = list(normalised.result.uses())
        if len(following) != 1 or normalised.result.is_graph_output():
            break
        node = following[0].node
        stored = node.inputs[1 - following[0].idx] if len(node.inputs) == 2 else None
        if node.domain or node.op_type != op_type or not _fits(stored, sizes):
            continue
        is_scale = op_type == "Mul"
        normalised = _Normalised(
            node.outputs[0],
            stored if is_scale else normalised.scale,
            normalised.shift if is_scale else stored,
            (*normalised.nodes, node),
        )
    return normalised


def _shifted(found: _Deviation, factor: _Factor, product: ir.Node) -> _Normalised | None:
    """Return ``x * f - mean * f``, with a shift or without one, in whatever order; None if it is not that.

    Args:
        found: The deviation.
        factor: ``f``.
        product: The node that makes ``x * f``.
    """
    last = next((use.node for use in product.outputs[0].uses()), None)
    if last is None or last.op_type not in {"Add", "Sub"}:
        return None
    nodes, shift = [product], None
    terms = _terms(last.outputs[0], 1, nodes)
    for sign, value in terms:
        moved = _maker(value, "Mul")
        if (sign, value) == (1, product.outputs[0]):
            continue
        if moved is not None and (own := _product_with_mean(found, factor, moved)) is not None:
            if sign != own[0]:
                return None
            nodes += own[1]
        elif sign == 1 and shift is None and _fits(value, found.sizes):
            shift = value
        else:
            return None
    if len(terms) != 2 + (shift is not None):
        return None
    result = _Normalised(last.outputs[0], factor.scale, shift, (*factor.nodes, *nodes))
    return result if shift is not None else _scaled(result, found.sizes, ("Add",))


def _terms(value: ir.Value, sign: int, nodes: list[ir.Node], depth: int = 2) -> list[tuple[int, ir.Value]]:
    """Return the terms of a sum with their signs, and collect the nodes that add them up."""
    node = _maker(value, "Add", "Sub") if depth else None
    if node is None or None in node.inputs:
        return [(sign, value)]
    nodes.append(node)
    signs = (sign, -sign if node.op_type == "Sub" else sign)
    return [
        term
        for each, read in zip(signs, node.inputs, strict=True)
        if read is not None
        for term in _terms(read, each, nodes, depth - 1)
    ]


def _product_with_mean(
    found: _Deviation, factor: _Factor, product: ir.Node
) -> tuple[int, list[ir.Node]] | None:
    """Return with which sign ``mean * f`` is subtracted by a term that is it, and the nodes that make it."""
    other = next((value for value in product.inputs if value is not factor.value), None)
    if factor.value not in product.inputs:
        return None
    if other is found.mean:
        return -1, [product]
    negated = _maker(other, "Neg")
    return (1, [product, negated]) if negated is not None and negated.inputs[0] is found.mean else None


def _fits(stored: ir.Value | None, sizes: tuple[int, ...]) -> bool:
    """Return whether a stored array is a number, or has one for each element of the last axes."""
    if stored is None or stored.const_value is None:
        return False
    shape = tuple(stored.const_value.shape.numpy())
    while len(shape) > len(sizes) and shape[0] == 1:
        shape = shape[1:]
    return len(shape) <= len(sizes) and all(
        size in {1, wanted} for size, wanted in zip(shape[::-1], sizes[::-1], strict=False)
    )


def _replace(rewriter: Rewriter, found: _Deviation, normalised: _Normalised) -> None:
    """Put a LayerNormalization, or an RMSNormalization, in the place of a normalised value's nodes."""
    name = normalised.result.name
    like = ir.Tensor(np.ones(1, np.float32 if found.x.dtype is None else found.x.dtype.numpy()))

    def array(stored: ir.Value | None, neutral: float) -> ir.Value:
        tensor = stored.const_value if stored is not None else None
        if stored is not None and tensor is not None and tuple(tensor.shape.numpy()) == found.sizes:
            return stored
        return rewriter.computed(
            lambda: np.broadcast_to(
                neutral if tensor is None else _without_ones(tensor.numpy(), len(found.sizes)), found.sizes
            ),
            name=f"{name}/{'scale' if neutral else 'shift'}",
            like=like,
            shape=found.sizes,
        )

    inputs = [found.x, array(normalised.scale, 1.0)]
    if normalised.shift is not None:
        inputs.append(array(normalised.shift, 0.0))
    settings = {"axis": -len(found.sizes), "epsilon": found.epsilon}
    nodes = {*found.nodes, *normalised.nodes}
    is_centred = found.mean is not None
    op_type, domain = ("LayerNormalization", "") if is_centred else ("RMSNormalization", DOMAIN)
    rewriter.fuse(nodes, normalised.result, op_type, inputs, settings, domain=domain)


def _without_ones(array: np.ndarray, rank: int) -> np.ndarray:
    """Return an array without the axes of size 1 that it has before the last ones."""
    return array.reshape(array.shape[max(0, array.ndim - rank) :])


Polynomial = dict[tuple[int, int], float]
"""Coefficients by the powers of the input and of the gate."""

TOLERANCE = 1e-4
"""By so much of itself a coefficient may be off: sources write 0.7978845608 and 1.4142135381."""

_ARGUMENTS: dict[str, Polynomial] = {
    "Erf": {(1, 0): sqrt(1 / 2)},
    "Tanh": {(1, 0): sqrt(2 / pi), (3, 0): sqrt(2 / pi) * 0.044715},
}
"""What the gate is taken of, by the gate's operator."""

_RESULT: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
"""``0.5 * x * (1 + gate)``, in whatever order it is multiplied out."""

MAX_NODES = 8
"""So many nodes at most stand between the gate and the result, and before the gate."""

_HIGHEST = 3
"""No power of the input is higher than this."""


@Pass
def fuse_gelu(graph: Graph) -> None:
    """Make one Gelu of the nodes that compute ``0.5 * x * (1 + erf(x / sqrt(2)))``, or its tangent form."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if node.domain or node.op_type not in _ARGUMENTS or node.inputs[0] is None:
            continue
        x = _input(node.inputs[0], _ARGUMENTS[node.op_type])
        nodes = _nodes_to_result(node, x) if x is not None else None
        if nodes is not None:
            kind = "none" if node.op_type == "Erf" else "tanh"
            rewriter.replace(nodes, "Gelu", [x], {"approximate": kind})


def _input(argument: ir.Value, wanted: Polynomial) -> ir.Value | None:
    """Return the value of which the argument of a gate is the wanted polynomial."""
    value, seen = argument, 0
    while (node := value.producer()) is not None and node.op_type in _RULES and seen < MAX_NODES:
        computed = [v for v in node.inputs if v is not None and number_of(v) is None]
        if not computed:
            return None
        value, seen = computed[0], seen + 1
        if _is_close(_polynomial(argument, {value: {(1, 0): 1.0}}), wanted):
            return value
    return None


def _nodes_to_result(gate: ir.Node, x: ir.Value) -> list[ir.Node] | None:
    """Return the nodes from the gate's argument to ``0.5 * x * (1 + gate)``; None if it is not that."""
    known = {x: {(1, 0): 1.0}, gate.outputs[0]: {(0, 1): 1.0}}
    value = gate.outputs[0]
    for _ in range(MAX_NODES):
        readers = {use.node for use in value.uses()}
        if len(readers) != 1 or value.is_graph_output():
            return None
        (node,) = readers
        if node.domain or node.op_type not in _RULES:
            return None
        value = node.outputs[0]
        if _is_close(_polynomial(value, known), _RESULT):
            return _between(value, gate, x)
    return None


def _between(result: ir.Value, gate: ir.Node, x: ir.Value) -> list[ir.Node] | None:
    """Return the nodes that make a result of x, in order; None if others read one of their values."""
    between: list[ir.Node] = []
    stack = [result]
    while stack:
        value = stack.pop()
        node = value.producer()
        if value is x or node is None or number_of(value) is not None or node in between:
            continue
        between.append(node)
        stack += [v for v in node.inputs if v is not None]
    inner = [node for node in between if node is not result.producer()]
    is_closed = all(
        not node.outputs[0].is_graph_output() and all(use.node in between for use in node.outputs[0].uses())
        for node in inner
    )
    order = {node: number for number, node in enumerate(gate.graph or [])}
    return sorted(between, key=order.__getitem__) if is_closed else None


def _polynomial(
    value: ir.Value, known: dict[ir.Value, Polynomial], depth: int = MAX_NODES
) -> Polynomial | None:
    """Return a value as a polynomial of known ones; None if it is none."""
    if value in known:
        return known[value]
    number, node = number_of(value), value.producer()
    if number is not None:
        return {(0, 0): number}
    rule = _RULES.get(node.op_type) if node is not None and not node.domain else None
    if node is None or rule is None or not depth:
        return None
    operands = [_polynomial(v, known, depth - 1) if v is not None else None for v in node.inputs]
    given = [operand for operand in operands if operand is not None]
    return rule(*given) if len(given) == len(operands) == 2 else None


def _add(a: Polynomial, b: Polynomial) -> Polynomial:
    return {powers: a.get(powers, 0) + b.get(powers, 0) for powers in a | b}


def _subtract(a: Polynomial, b: Polynomial) -> Polynomial:
    return _add(a, {powers: -factor for powers, factor in b.items()})


def _multiply(a: Polynomial, b: Polynomial) -> Polynomial | None:
    product: Polynomial = {}
    for (i, j), left in a.items():
        for (k, m), right in b.items():
            if i + k > _HIGHEST or j + m > 1:
                return None
            product[i + k, j + m] = product.get((i + k, j + m), 0) + left * right
    return product


def _divide(a: Polynomial, b: Polynomial) -> Polynomial | None:
    divisor = b.get((0, 0), 0)
    return _multiply(a, {(0, 0): 1 / divisor}) if b.keys() == {(0, 0)} and divisor else None


def _power(a: Polynomial, b: Polynomial) -> Polynomial | None:
    exponent = b.get((0, 0), 0)
    if b.keys() != {(0, 0)} or exponent not in {1, 2, 3}:
        return None
    result: Polynomial | None = a
    for _ in range(int(exponent) - 1):
        result = _multiply(result, a) if result is not None else None
    return result


_RULES: dict[str, Callable[[Polynomial, Polynomial], Polynomial | None]] = {
    "Add": _add,
    "Div": _divide,
    "Mul": _multiply,
    "Pow": _power,
    "Sub": _subtract,
}
"""How the operators that a GELU is written with compute with polynomials."""


def _is_close(found: Polynomial | None, wanted: Polynomial) -> bool:
    if found is None:
        return False
    return all(
        abs(found.get(powers, 0) - wanted.get(powers, 0)) <= TOLERANCE * abs(wanted.get(powers, 0))
        for powers in found | wanted
    )

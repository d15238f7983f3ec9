"""GELU put together again: the input times a gate of the error function, or of the tangent close to it."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from netweave.graph.passes.rewrite import Pass, Rewriter
from netweave.graph.passes.views import number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

    from netweave.graph import Graph

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
    found: list[ir.Node] = []
    stack = [result]
    while stack:
        value = stack.pop()
        node = value.producer()
        if value is x or node is None or number_of(value) is not None or node in found:
            continue
        found.append(node)
        stack += [v for v in node.inputs if v is not None]
    inner = [node for node in found if node is not result.producer()]
    is_closed = all(
        not node.outputs[0].is_graph_output() and all(use.node in found for use in node.outputs[0].uses())
        for node in inner
    )
    order = {node: number for number, node in enumerate(gate.graph or [])}
    return sorted(found, key=order.__getitem__) if is_closed else None


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

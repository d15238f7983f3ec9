"""Groups of nodes that TensorFlow writes for one thing, as one node each.

``tf.nn.dropout`` is a division, a random mask and a product; ``tf.nn.batch_normalization`` is arithmetic
around an ``Rsqrt``; a dilated convolution of TensorFlow 1 is a convolution between ``SpaceToBatchND`` and
``BatchToSpaceND``; a loop of TensorFlow 1 is a circle (``frames``). As single nodes they are what they are
called, whatever they are written as.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.tensorflow.frames import join_frames
from netweave.formats.tensorflow.nodes import Body, Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.formats.tensorflow.nodes import Ref

ADDS = frozenset({"Add", "AddV2"})
RANDOM = frozenset({"RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2"})
CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2dNative"})

MAX_STEPS = 6
"""How far behind a mask its random numbers are looked for."""

Nodes = "Mapping[str, Node]"


def simplify(body: Body) -> Body:
    """Return a body with the groups as single nodes; nodes that are left over are read by nobody."""
    nodes = dict(body.nodes)
    for node in body.nodes.values():
        if node.op in {"Mul", "SelectV2", "Select"}:
            joined = _dropout(node, nodes)
        elif node.op in ADDS or node.op == "Sub":
            joined = _normalisation(node, nodes)
        else:
            joined = None
        if joined is not None:
            nodes[node.name] = joined
    _dilated(Body(body.name, nodes, body.arguments, body.results), nodes)
    join_frames(nodes)
    return Body(body.name, nodes, body.arguments, body.results)


def _dropout(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return a Dropout for ``scaled * mask`` or ``where(mask, scaled, 0)``."""
    pairs = [(0, 1)] if node.op != "Mul" else [(0, 1), (1, 0)]
    for mask, scaled in pairs:
        if len(node.inputs) > scaled and _is_mask(node.inputs[mask], nodes):
            source, ratio = _unscaled(node.inputs[scaled], nodes)
            return Node(node.name, "Dropout", (source,), {"ratio": ratio}, node.line)
    return None


def _is_mask(ref: Ref, nodes: Mapping[str, Node]) -> bool:
    node = _behind(ref, nodes)
    return (
        node is not None
        and node.op in {"Floor", "GreaterEqual", "Greater", "Less"}
        and any(_is_random(source, nodes, MAX_STEPS) for source in node.inputs)
    )


def _is_random(ref: Ref, nodes: Mapping[str, Node], steps: int) -> bool:
    node = _behind(ref, nodes)
    if node is None or not steps:
        return False
    if node.op in RANDOM:
        return True
    return node.op in ADDS | {"Mul", "Sub"} and any(
        _is_random(source, nodes, steps - 1) for source in node.inputs
    )


def _unscaled(ref: Ref, nodes: Mapping[str, Node]) -> tuple[Ref, float | None]:
    """Return what a dropout scales up, and the ratio that it drops, if it is stored."""
    node = nodes.get(ref[0])
    if node is None or node.op not in {"RealDiv", "Div", "Mul"}:
        return ref, None
    for index in (1, 0) if node.op == "Mul" else (1,):
        number = _number(node.inputs[index], nodes)
        if number:
            keep = 1 / number if node.op == "Mul" else number
            return node.inputs[1 - index], 1 - keep
    return node.inputs[0], None


def _normalisation(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return a BatchNormalization for ``x * scale + (beta - mean * scale)``; ``scale`` holds the Rsqrt."""
    if len(node.inputs) != 2:
        return None
    for product, shift in ((0, 1), (1, 0)) if node.op in ADDS else ((0, 1),):
        left, right = nodes.get(node.inputs[product][0]), nodes.get(node.inputs[shift][0])
        if left is None or right is None or left.op != "Mul":
            continue
        beta, mean_part = _shift(right) if node.op in ADDS else (None, right)
        mean_node = nodes.get(mean_part[0]) if isinstance(mean_part, tuple) else mean_part
        if mean_node is None or mean_node.op != "Mul":
            continue
        shared = _common(left, mean_node)
        scale = _scale(shared[2], nodes) if shared else None
        if shared and scale:
            x, mean, _ = shared
            gamma, variance, eps = scale
            inputs = [x, mean, variance, *([gamma] if gamma else []), *([beta] if beta else [])]
            settings = {"epsilon": eps, "gamma": gamma is not None, "beta": beta is not None}
            return Node(node.name, "BatchNormalization", tuple(inputs), settings, node.line)
    return None


def _shift(node: Node) -> tuple[Ref | None, Ref]:
    """Return beta and ``mean * scale`` of the part that does not hold x."""
    if node.op == "Sub":
        return node.inputs[0], node.inputs[1]
    if node.op == "Neg":
        return None, node.inputs[0]
    return None, ("", 0)


def _common(left: Node, right: Node) -> tuple[Ref, Ref, Ref] | None:
    """Return x, mean and the factor that both products share."""
    for i in (0, 1):
        for j in (0, 1):
            if left.inputs[i] == right.inputs[j]:
                return left.inputs[1 - i], right.inputs[1 - j], left.inputs[i]
    return None


def _scale(ref: Ref, nodes: Mapping[str, Node]) -> tuple[Ref | None, Ref, float] | None:
    """Return gamma, variance and eps of ``rsqrt(variance + eps) * gamma``."""
    node = _behind(ref, nodes)
    if node is None:
        return None
    gamma: Ref | None = None
    root: Node | None = node
    if node.op == "Mul":
        roots = [_behind(source, nodes) for source in node.inputs]
        at = next((i for i, each in enumerate(roots) if each is not None and each.op == "Rsqrt"), None)
        if at is None:
            return None
        gamma, root = node.inputs[1 - at], roots[at]
    if root is None or root.op != "Rsqrt":
        return None
    total = _behind(root.inputs[0], nodes)
    if total is None or total.op not in ADDS:
        return None
    for index in (0, 1):
        eps = _number(total.inputs[index], nodes)
        if eps is not None:
            return gamma, total.inputs[1 - index], eps
    return None


def _dilated(body: Body, nodes: dict[str, Node]) -> None:
    """Write a convolution between SpaceToBatchND and BatchToSpaceND as a dilated one, in place."""
    readers = body.readers()
    for node in body.nodes.values():
        inner = nodes.get(node.inputs[0][0]) if node.op == "BatchToSpaceND" else None
        bias = inner if inner is not None and inner.op == "BiasAdd" else None
        convolution = nodes.get(bias.inputs[0][0]) if bias else inner
        if convolution is None or convolution.op not in CONVOLUTIONS:
            continue
        before = nodes.get(convolution.inputs[0][0])
        alone = all(len(readers[n.name]) == 1 for n in (convolution, *([bias] if bias else [])))
        if before is None or before.op != "SpaceToBatchND" or not alone:
            continue
        inputs = (before.inputs[0], convolution.inputs[1], *before.inputs[1:], node.inputs[2])
        dilated = replace(convolution, inputs=inputs, attributes={**convolution.attributes, "_dilated": True})
        if bias is None:
            nodes[node.name] = replace(dilated, name=node.name)
        else:
            nodes[convolution.name] = dilated
            nodes[node.name] = replace(bias, name=node.name)


def _behind(ref: Ref, nodes: Mapping[str, Node]) -> Node | None:
    """Return the node that makes a value, behind copies and changes of type."""
    node = nodes.get(ref[0])
    while node is not None and node.op in {"Identity", "Cast"} and node.inputs:
        node = nodes.get(node.inputs[0][0])
    return node


def _number(ref: Ref, nodes: Mapping[str, Node]) -> float | None:
    """Return a stored number."""
    node = _behind(ref, nodes)
    value = node.attributes.get("value") if node is not None and node.op == "Const" else None
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        return float(value.reshape(-1)[0])
    return None

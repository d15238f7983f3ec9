"""Normalisations that a source writes in pieces: Caffe's BatchNorm, and its Scale as Mul and Add.

torch has one kernel for both. It saves two passes over the activations forward, and four backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import gradient_factors, known_shape, parameter_key

if TYPE_CHECKING:
    from collections.abc import Collection

    import onnx_ir as ir

    from netweave.graph import Graph


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
        found = [self.norm]
        if self.shift is not None:
            found += [node for node, _ in self.norm.outputs[0].uses()]
        return found


def scaled_normalisations(graph: Graph, wanted: Collection[ir.Value]) -> list[ScaledNormalisation]:
    """Return the normalisations of a graph that one kernel can scale and shift as well.

    Args:
        graph: The graph.
        wanted: Values that must be there by themselves.
    """
    found = []
    for node in graph.nodes:
        if node.op_type != "BatchNormalization" or not _is_plain(node):
            continue
        scaled = _next(node, "Mul", wanted)
        if scaled is None:
            continue
        shifted = _next(scaled[0], "Add", wanted)
        last, shift = shifted or (scaled[0], None)
        found.append(ScaledNormalisation(node, scaled[1], shift, last))
    return found


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

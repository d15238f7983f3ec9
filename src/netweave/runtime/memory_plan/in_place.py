"""Nodes that may write their output over an input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.graph import gradient_factors, known_shape
from netweave.runtime.memory_plan.behaviour import behaviour_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import onnx_ir as ir

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class Overwrite:
    """An input that a node writes its output over.

    Attributes:
        position: Of the input.
        in_training: Whether it does so in training too.
    """

    position: int
    in_training: bool


def overwrites(graph: Graph, wanted: Collection[ir.Value] = ()) -> dict[ir.Node, Overwrite]:
    """Return the nodes that may write over an input, and over which.

    A node may if it is the only reader of the input, the input is memory that its producer made for it, and
    output and input have the same shape and type. In training the producer's backward must not read it.

    Args:
        graph: The graph.
        wanted: Values that must keep what they hold, besides the outputs.
    """
    kept = {*graph.outputs, *wanted}
    found = {}
    for node in graph.nodes:
        overwrite = _overwrite(node, kept)
        if overwrite is not None:
            found[node] = overwrite
    return found


def _overwrite(node: ir.Node, kept: Collection[ir.Value]) -> Overwrite | None:
    behaviour = behaviour_of(node)
    if gradient_factors(node):  # a scaled gradient comes through a view
        return None
    for position in behaviour.overwrites:
        value = node.inputs[position] if position < len(node.inputs) else None
        if value is not None and value not in kept and _is_free(value, node.outputs[0]):
            maker = value.producer()
            assert maker is not None
            fresh = behaviour_of(maker).fresh and value is maker.outputs[0]
            return Overwrite(position, in_training=fresh and behaviour.overwrites_in_training)
    return None


def _is_free(value: ir.Value, output: ir.Value) -> bool:
    maker = value.producer()
    if maker is None or len(value.uses()) != 1 or not behaviour_of(maker).owned:
        return False
    return value.dtype == output.dtype and _may_be_alike(known_shape(value), known_shape(output))


def _may_be_alike(ours: tuple[int | None, ...] | None, theirs: tuple[int | None, ...] | None) -> bool:
    """Return whether two shapes can be the same; a lowering looks again where a size is not known."""
    if ours is None or theirs is None:
        return True
    return len(ours) == len(theirs) and all(
        a is None or b is None or a == b for a, b in zip(ours, theirs, strict=True)
    )

"""A change of a net that may be what another implementation computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.mismatch import node_named
from netweave.comparison.metric import Signals, constants_of
from netweave.graph import Graph

Change = Callable[[Graph], None]

Arrays = Mapping[str, np.ndarray]

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
        is_local: Nothing but the node, and what is computed from it, changes.
    """

    mismatch: str
    node: ir.Node
    cause: str
    fix: str
    change: Change
    is_shared: bool = False
    is_local: bool = True


def stored_array(node: ir.Node, index: int) -> np.ndarray | None:
    """Return a constant input of a node; None if the input is none."""
    value = constants_of(node).get(index)
    return None if value is None or value.const_value is None else value.const_value.numpy()


def maker_of(signals: Signals, name: str) -> str:
    """Return the layer that computes a signal, in words."""
    node = signals.producer.get(name)
    layers = signals.graph.layers_of(node) if node is not None else ()
    return f"the output of {layers[0].name!r}" if layers else f"{name!r}"


class Bypass:
    """Makes a node return its first input."""

    def __init__(self, node: str | None) -> None:
        self._node = node

    def __call__(self, graph: Graph) -> None:
        """Change a copy of the node's surroundings."""
        node = node_named(graph, self._node)
        node.resize_inputs(1)
        node.op_type, node.domain = "Identity", ""
        node.attributes.clear()

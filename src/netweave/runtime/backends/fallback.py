"""Running nodes by the registry's own NumPy forwards, for operators that a runtime lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import RunError
from netweave.graph import attributes_of, find_operator

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.runtime.backends.segments import Segment


@dataclass(frozen=True, slots=True)
class Fallback:
    """A segment run node by node in NumPy.

    Attributes:
        nodes: The nodes, in order.
        places: Where each of them stands, for a message.
        stored: Arrays of the initializers that they read, by name.
        outputs: Names of the values to give back.
    """

    nodes: tuple[ir.Node, ...]
    places: tuple[str, ...]
    stored: dict[str, np.ndarray]
    outputs: tuple[str, ...]

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name, given the values that the segment reads."""
        local = {**values, **self.stored}
        for node, place in zip(self.nodes, self.places, strict=True):
            local.update(run_node(node, local, place=place))
        return {name: local[name] for name in self.outputs}


def fallback(segment: Segment, graph: Graph) -> Fallback:
    """Make a segment of a graph ready; its operators must be in the registry.

    Raises:
        RunError: An operator is not registered.
    """
    for node in segment.nodes:
        find_operator(node.op_type)
    stored = {
        value.name or "": value.const_value.numpy()
        for value in segment.initializers
        if value.const_value is not None
    }
    places = tuple(graph.place_of(node) for node in segment.nodes)
    return Fallback(segment.nodes, places, stored, tuple(value.name or "" for value in segment.outputs))


def run_node(node: ir.Node, values: Mapping[str, np.ndarray], *, place: str) -> dict[str, np.ndarray]:
    """Return the outputs of one node of the domain ``netweave`` by name.

    Optional inputs that are left out are left out of what its forward is given, as of what its shape
    rule is.

    Raises:
        RunError: The forward cannot be carried out on these values.
    """
    entry = find_operator(node.op_type)
    inputs = [values[value.name or ""] for value in node.inputs if value is not None]
    try:
        with np.errstate(all="ignore"):  # infinities are values here, as in the sources
            made = entry.forward(inputs, attributes_of(node))
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
        shapes = ", ".join(str(array.shape) for array in inputs)
        raise RunError(f"{place}: {node.op_type} cannot run on inputs {shapes}: {error}") from error
    return {
        value.name: np.asarray(array) for value, array in zip(node.outputs, made, strict=False) if value.name
    }

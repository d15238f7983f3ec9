"""How much memory a net takes, from the sizes of its values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from netweave.graph import BATCH
from netweave.graph.wording import bytes_text

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph

VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Operators whose output is the memory of their first input."""


@dataclass(frozen=True, slots=True)
class Memory:
    """An estimate in bytes; what kernels take for themselves and what allocators waste is not in it.

    Attributes:
        parameters: All stored arrays.
        inputs: One batch.
        predicting: Parameters, inputs, and the values that are alive at once where they are largest, each
            let go after its last use.
        training: Parameters and their gradients, inputs, all values, which backward needs again, and the
            two largest neighbouring gradients of values; without the solver's own arrays.
    """

    parameters: int
    inputs: int
    predicting: int
    training: int

    def __str__(self) -> str:
        return (
            f"{bytes_text(self.parameters)} of parameters; {bytes_text(self.predicting)} to predict, "
            f"{bytes_text(self.training)} to train"
        )


def estimate(graph: Graph, *, batch: int) -> Memory:
    """Return the memory that a net takes.

    Args:
        graph: The net, with sizes that are known but for the batch; one that is not counts as 1.
        batch: Records in a batch.
    """
    parameters = sum(4 * parameter.size for parameter in graph.parameters.values())
    inputs = sum(_num_bytes(value, batch) for value in graph.inputs)
    made = {value: _own_bytes(value, batch) for node in graph.nodes for value in node.outputs}
    gradients = [
        sum(made[value] for value in node.outputs) + sum(made.get(value, 0) for value in node.inputs if value)
        for node in graph.nodes
    ]
    return Memory(
        parameters=parameters,
        inputs=inputs,
        predicting=parameters + inputs + _peak(graph, made),
        training=2 * parameters + inputs + sum(made.values()) + max(gradients, default=0),
    )


def _peak(graph: Graph, made: dict[ir.Value, int]) -> int:
    """Return the most bytes of values alive at once, in the order of the nodes."""
    last: dict[ir.Value, int] = {}
    for number, node in enumerate(graph.nodes):
        for value in node.inputs:
            if value is not None:
                last[_owner(value)] = number
    kept = {_owner(value) for value in graph.outputs}
    alive = peak = 0
    for number, node in enumerate(graph.nodes):
        alive += sum(made[value] for value in node.outputs)
        peak = max(peak, alive)
        done = {_owner(value) for value in [*node.inputs, *node.outputs] if value is not None} - kept
        alive -= sum(made.get(value, 0) for value in done if last.get(value, number) == number)
    return peak


def _owner(value: ir.Value) -> ir.Value:
    """Return the value whose memory a view is."""
    maker = value.producer()
    while maker is not None and maker.op_type in VIEWS and maker.inputs[0] is not None:
        value = maker.inputs[0]
        maker = value.producer()
    return value


def _own_bytes(value: ir.Value, batch: int) -> int:
    return _num_bytes(value, batch) if _owner(value) is value else 0


def _num_bytes(value: ir.Value, batch: int) -> int:
    sizes = [_size(dim, batch) for dim in value.shape.dims] if value.shape is not None else []
    return prod(sizes) * int(value.dtype.itemsize if value.dtype else 4)


def _size(dim: int | ir.SymbolicDim, batch: int) -> int:
    if isinstance(dim, int):
        return dim
    found = dim.evaluate({BATCH: batch})
    return found if isinstance(found, int) else 1

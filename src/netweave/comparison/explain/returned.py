"""Functions that A computes of an output and B leaves out, as the softmax behind the last layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.result.comparison import OUTPUT, Edit
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment

    Sizes = tuple[int | None, ...]

FUNCTIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
"""PyTorch's functions of each element, by the operator."""

ALONG_AXIS = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}
"""PyTorch's functions along an axis."""


@dataclass(frozen=True, slots=True)
class ReturnedFunction:
    """One function more of an output.

    Attributes:
        words: What to do, for people.
        edit: The same for the text of B's file.
    """

    words: str
    edit: Edit


def function_of_output(alignment: Alignment, nodes: Sequence[ir.Node]) -> ReturnedFunction | None:
    """Return the function that turns an output of B into A's; None if it is none that B's code could call.

    Args:
        alignment: Pairs of signals, and B as it was read, which says where its code returns outputs.
        nodes: A's nodes that B has no counterpart of.
    """
    a, b = alignment.sides
    if b.source.returned is None or len(nodes) != 1:
        return None
    (node,) = nodes
    read = a.signals.inputs_of(node)
    pair = a.pairs.get(read[0]) if len(read) == 1 else None
    if pair is None or not set(a.signals.outputs_of(node)) & set(a.signals.outputs):
        return None
    ends = [output for output in b.graph.outputs if b.signals.root.get(str(output.name)) == pair.b]
    if len(ends) != 1:
        return None
    change = pair.change
    if change is not None and (change.axes is not None or change.scale != 1.0):
        return None
    call = _call(node, ends[0])
    if call is None:
        return None
    place, count = b.graph.outputs.index(ends[0]) + 1, len(b.graph.outputs)
    what = f"output {place} of {count} that" if count > 1 else "what"
    words = f"apply {call} to {what} forward returns"
    return ReturnedFunction(words, Edit(OUTPUT, f"{place} of {count}: {call}"))


def _call(node: ir.Node, output: ir.Value) -> str | None:
    """Return how PyTorch computes of an output of B what a node of A computes of its input."""
    if node.domain not in {"", "ai.onnx"}:
        return None
    if node.op_type in FUNCTIONS:
        return f"{FUNCTIONS[node.op_type]}()"
    shape_a, shape_b = known_shape(node.inputs[0]), known_shape(output)
    if node.op_type not in ALONG_AXIS or shape_a is None or shape_b is None:
        return None
    axis = attributes_of(node).get("axis", -1) % len(shape_a)
    is_same = shape_a == shape_b or _is_flattened(shape_a, shape_b, axis)
    return f"{ALONG_AXIS[node.op_type]}(dim={axis})" if is_same else None


def _is_flattened(shape_a: Sizes, shape_b: Sizes, axis: int) -> bool:
    """Return whether two tensors are alike up to an axis, behind which there is one pixel in each."""
    rest = (*shape_a[axis + 1 :], *shape_b[axis + 1 :])
    return shape_a[: axis + 1] == shape_b[: axis + 1] and all(size == 1 for size in rest)

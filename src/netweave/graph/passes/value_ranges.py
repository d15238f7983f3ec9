"""Ranges that the values of a net cannot leave: behind a rectifier, a sigmoid, a clip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

Range = tuple[float, float]

OPEN: Range = (-np.inf, np.inf)

LIMITED: dict[str, Range] = {
    "Abs": (0.0, np.inf),
    "Erf": (-1.0, 1.0),
    "Exp": (0.0, np.inf),
    "HardSigmoid": (0.0, 1.0),
    "HardSwish": (-0.375, np.inf),
    "LogSoftmax": (-np.inf, 0.0),
    "Mish": (-0.3089, np.inf),
    "ReduceL1": (0.0, np.inf),
    "ReduceL2": (0.0, np.inf),
    "ReduceSumSquare": (0.0, np.inf),
    "Relu": (0.0, np.inf),
    "Sigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Softplus": (0.0, np.inf),
    "Softsign": (-1.0, 1.0),
    "Sqrt": (0.0, np.inf),
    "Tanh": (-1.0, 1.0),
}
"""Operators whose values stay within a range."""

KEEPING = frozenset(
    {
        "AveragePool", "Cast", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather",
        "GlobalAveragePool", "GlobalMaxPool", "Identity", "MaxPool", "ReduceMax", "ReduceMean", "ReduceMin",
        "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose values lie between those that they read first (all that it reads, for Concat)."""

MAX_DEPTH = 24
"""Nodes that are followed back; behind more, a value may be anything."""


def range_of(value: ir.Value, depth: int = MAX_DEPTH) -> Range:
    """Return the least and the largest value that a tensor can hold, as far as the operators before it say.

    Args:
        value: The tensor.
        depth: Number of nodes that are followed back.
    """
    if value.const_value is not None:
        x = value.const_value.numpy()
        return (float(x.min()), float(x.max())) if x.size and x.dtype.kind in "fiu" else OPEN
    node = value.producer()
    limits = _type_limits(value)
    if node is None or node.domain or (value is not node.outputs[0] and node.op_type != "Split"):
        return limits
    if node.op_type in LIMITED:
        return LIMITED[node.op_type]
    if not depth:
        return limits
    low, high = _computed(node, [OPEN if v is None else range_of(v, depth - 1) for v in node.inputs])
    # what a whole number cannot hold wraps around
    return (low, high) if limits[0] <= low and high <= limits[1] else limits


def _type_limits(value: ir.Value) -> Range:
    """Return the least and the largest value that the type of a tensor holds; none for other numbers."""
    dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
    if dtype.kind not in "iu":
        return OPEN
    limits = np.iinfo(dtype.name)
    return float(limits.min), float(limits.max)


def _computed(node: ir.Node, read: list[Range]) -> Range:
    op = node.op_type
    if op in KEEPING:
        parts = read if op == "Concat" else read[:1]
        zero = [(0.0, 0.0)] if op == "AveragePool" else []  # padding may count
        return min(low for low, _ in [*parts, *zero]), max(high for _, high in [*parts, *zero])
    if op == "Pad":
        value = read[2] if len(read) > 2 and node.inputs[2] is not None else (0.0, 0.0)
        return min(read[0][0], value[0]), max(read[0][1], value[1])
    if op == "Clip":
        low = read[1] if len(read) > 1 and node.inputs[1] is not None else (-np.inf, -np.inf)
        high = read[2] if len(read) > 2 and node.inputs[2] is not None else (np.inf, np.inf)
        least, largest = (min(max(x, a), b) for x, a, b in zip(read[0], low, high, strict=True))
        return least, largest
    if op == "Max":
        return max(low for low, _ in read), max(high for _, high in read)
    if op == "Min":
        return min(low for low, _ in read), min(high for _, high in read)
    if op in {"Add", "Sum"}:
        return sum(low for low, _ in read), sum(high for _, high in read)
    if op == "Mul" and all(low >= 0 for low, _ in read):
        return float(np.prod([low for low, _ in read])), _product([high for _, high in read])
    return OPEN


def _product(highs: list[float]) -> float:
    return 0.0 if 0.0 in highs else float(np.prod(highs))

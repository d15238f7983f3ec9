"""Ranges that the values of a net cannot leave: behind a rectifier, a sigmoid, a clip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

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

INCREASING: dict[str, Callable[[float], float]] = {
    "Exp": np.exp,
    "Relu": lambda x: max(x, 0.0),
    "Softplus": lambda x: float(np.logaddexp(x, 0.0)),
    "Sqrt": lambda x: float(np.sqrt(max(x, 0.0))),
}
"""Those of them that no number bounds above, but what they read may."""

LAST_BITS = 1 + 1e-6
"""Factor by which a runtime's function may be beyond the exact value."""

KEEPING = frozenset(
    {
        "AveragePool", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather",
        "GlobalAveragePool", "GlobalMaxPool", "Identity", "MaxPool", "ReduceMax", "ReduceMean", "ReduceMin",
        "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose values lie between those that they read first."""

AVERAGING = frozenset({"AveragePool", "Dropout", "GlobalAveragePool", "ReduceMean"})
"""Those of them that make other numbers than they read."""

ROUNDING = frozenset({"Ceil", "Floor", "Round", "Sign"})

OF_WHOLE_NUMBERS = frozenset({"Add", "Concat", "Max", "Min", "Mul", "Sub", "Sum"})
"""Operators that make whole numbers of whole numbers."""

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
    if node is None and value.dtype is not None and value.dtype.is_integer():
        return _looked_up(value, limits)
    if node is None or node.domain or (value is not node.outputs[0] and node.op_type != "Split"):
        return limits
    low, high = LIMITED.get(node.op_type, limits)
    if node.op_type in INCREASING and depth and node.inputs[0] is not None:
        high = INCREASING[node.op_type](range_of(node.inputs[0], depth - 1)[1]) * LAST_BITS
    if node.op_type in LIMITED or not depth:
        return low, high
    low, high = _computed(node, [OPEN if v is None else range_of(v, depth - 1) for v in node.inputs])
    # what a whole number cannot hold wraps around
    return (low, high) if limits[0] <= low and high <= limits[1] else limits


def is_whole(value: ir.Value, depth: int = MAX_DEPTH) -> bool:
    """Return whether all numbers that a tensor can hold are whole, as far as the operators before it say.

    Args:
        value: The tensor.
        depth: Number of nodes that are followed back.
    """
    if value.dtype is not None and value.dtype.is_integer():
        return True
    if value.const_value is not None:
        x = value.const_value.numpy()
        return x.dtype.kind == "f" and bool((x == np.trunc(x)).all())
    node = value.producer()
    if node is None or node.domain or not depth or (value is not node.outputs[0] and node.op_type != "Split"):
        return False
    if node.op_type in ROUNDING:
        return True
    read = [*node.inputs] if node.op_type in OF_WHOLE_NUMBERS else [*node.inputs[:1]]
    is_kept = (
        node.op_type in OF_WHOLE_NUMBERS or node.op_type in KEEPING - AVERAGING or node.op_type == "Cast"
    )
    return is_kept and all(x is not None and is_whole(x, depth - 1) for x in read)


def _looked_up(value: ir.Value, limits: Range) -> Range:
    """Return the range of whole numbers by which rows of tables are looked up; ``limits`` without any."""
    for use in value.uses():
        table = use.node.inputs[0]
        if use.node.domain or table is None or table.shape is None:
            continue
        if (use.node.op_type, use.idx) == ("Gather", 1):
            rows = table.shape[use.node.attributes.get_int("axis", 0)]
            limits = (max(limits[0], -rows), min(limits[1], rows - 1)) if isinstance(rows, int) else limits
        elif use.node.op_type in {"Identity", "Reshape", "Squeeze", "Unsqueeze"} and use.idx == 0:
            limits = _looked_up(use.node.outputs[0], limits)
    return limits


def _type_limits(value: ir.Value) -> Range:
    """Return the least and the largest value that the type of a tensor holds; none for other numbers."""
    dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
    if dtype.kind == "b":
        return 0.0, 1.0
    if dtype.kind not in "iu":
        return OPEN
    limits = np.iinfo(dtype.name)
    return float(limits.min), float(limits.max)


def _computed(node: ir.Node, read: list[Range]) -> Range:
    rule = _kept if node.op_type in KEEPING else RULES.get(node.op_type)
    return OPEN if rule is None else rule(node, read)


def _kept(node: ir.Node, read: list[Range]) -> Range:
    low, high = read[0]
    # padding may count
    return (min(low, 0.0), max(high, 0.0)) if node.op_type == "AveragePool" else (low, high)


def _cast(node: ir.Node, read: list[Range]) -> Range:
    low, high = read[0]
    dtype = node.outputs[0].dtype
    is_cut = dtype is not None and dtype.is_integer()
    return (float(np.trunc(low)), float(np.trunc(high))) if is_cut else (low, high)


def _united(_: ir.Node, read: list[Range]) -> Range:
    return min(low for low, _ in read), max(high for _, high in read)


def _padded(node: ir.Node, read: list[Range]) -> Range:
    value = read[2] if len(read) > 2 and node.inputs[2] is not None else (0.0, 0.0)
    return _united(node, [read[0], value])


def _clipped(node: ir.Node, read: list[Range]) -> Range:
    low = read[1] if len(read) > 1 and node.inputs[1] is not None else (-np.inf, -np.inf)
    high = read[2] if len(read) > 2 and node.inputs[2] is not None else (np.inf, np.inf)
    least, largest = (min(max(x, a), b) for x, a, b in zip(read[0], low, high, strict=True))
    return least, largest


def _remainder(node: ir.Node, read: list[Range]) -> Range:
    (low, _), (least, divisor) = read
    if least <= 0:
        return OPEN
    has_sign_of_dividend = node.attributes.get_int("fmod", 0) and low < 0
    return (-divisor if has_sign_of_dividend else 0.0), divisor


def _multiplied(_: ir.Node, read: list[Range]) -> Range:
    if any(low < 0 for low, _ in read):
        return OPEN
    highs = [high for _, high in read]
    return float(np.prod([low for low, _ in read])), 0.0 if 0.0 in highs else float(np.prod(highs))


def _added(_: ir.Node, read: list[Range]) -> Range:
    return sum(low for low, _ in read), sum(high for _, high in read)


RULES: dict[str, Callable[[ir.Node, list[Range]], Range]] = {
    "Add": _added,
    "Cast": _cast,
    "Clip": _clipped,
    "Concat": _united,
    "Max": lambda _, read: (max(low for low, _ in read), max(high for _, high in read)),
    "Min": lambda _, read: (min(low for low, _ in read), min(high for _, high in read)),
    "Mod": _remainder,
    "Mul": _multiplied,
    "OneHot": lambda _, read: read[2],
    "Pad": _padded,
    "Sum": _added,
}
"""The range of what an operator computes from the ranges of what it reads."""

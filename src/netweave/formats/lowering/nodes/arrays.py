"""Nodes of arrays and shapes that writers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from netweave.files.node_writer import GraphNode, NotWritable
from netweave.formats.lowering.elementwise import ONNX_NAMES


@dataclass(frozen=True, slots=True)
class DenseArrays:
    """The arrays of a dense layer; a factor of the node is multiplied into them.

    Attributes:
        num_inputs: Columns of the weight.
        num_outputs: Rows of the weight.
        weight: Loads the weight, (outputs, inputs).
        bias: Loads the bias, (outputs,); None for no bias.
        is_verbatim: Whether the weight is the stored array as it stands.
    """

    num_inputs: int
    num_outputs: int
    weight: Callable[[], np.ndarray]
    bias: Callable[[], np.ndarray] | None = None
    is_verbatim: bool = False


def dense_arrays(node: GraphNode) -> DenseArrays:
    """Return the arrays of a Gemm, or of a MatMul with a stored matrix.

    Raises:
        NotWritable: The first matrix of a Gemm is transposed, or the weight or bias is computed.
    """
    if node.get("transA", 0):
        raise NotWritable("its first matrix is transposed")
    load, has_rows = node.lazy_array(1), node.get("transB", 0) == 1
    alpha, beta = np.float32(node.get("alpha", 1.0)), np.float32(node.get("beta", 1.0))
    rows, columns = node.stored_shape(1)
    num_outputs, num_inputs = (rows, columns) if has_rows else (columns, rows)

    def weight() -> np.ndarray:
        matrix = load() if has_rows else np.ascontiguousarray(load().T)
        return matrix if alpha == 1 else matrix * alpha

    bias = None
    if node.has(2):
        load_bias = node.lazy_array(2)

        def bias() -> np.ndarray:
            return np.broadcast_to(load_bias().reshape(-1) * beta, (num_outputs,))

    return DenseArrays(num_inputs, num_outputs, weight, bias, is_verbatim=has_rows and alpha == 1)


def channel_slopes(node: GraphNode) -> tuple[int, Callable[[], np.ndarray]]:
    """Return how many slopes a PRelu has, 1 or one for each channel, and the function that loads them, flat.

    Raises:
        NotWritable: They vary along another axis.
    """
    load = node.lazy_array(1)
    sizes = [size for size in node.shape(1) if size != 1]
    count = sizes[0] if sizes else 1
    if len(sizes) > 1 or count not in {1, node.shape(0)[1]} or count is None:
        raise NotWritable("its slopes are not one for each channel")
    return count, lambda: load().reshape(-1)


def clip_bounds(node: GraphNode) -> tuple[float | None, float | None]:
    """Return the bounds of a Clip, None where it has none: a bound that no float32 exceeds is none."""
    largest = float(np.finfo(np.float32).max)
    bounds = [float(node.constant(index).reshape(-1)[0]) if node.has(index) else None for index in (1, 2)]
    low, high = (None if bound is not None and abs(bound) >= largest else bound for bound in bounds)
    return low, high


def statistics_arrays(node: GraphNode) -> list[Callable[[], np.ndarray]]:
    """Return the functions that load scale, shift, mean and variance of a BatchNormalization.

    Raises:
        NotWritable: It normalises by the statistics of the batch.
    """
    if node.get("training_mode", 0):
        raise NotWritable("it uses the statistics of the batch")
    return [node.lazy_array(index) for index in (1, 2, 3, 4)]


def by_operator(names: Iterable[str]) -> dict[str, str]:
    """Return a framework's functions of each element by ONNX's operator, from the readers' own table.

    Args:
        names: What the framework calls its functions; a module in front of a name does not count.

    >>> by_operator(["TanH", "BNLL", "torch.abs"])
    {'Tanh': 'TanH', 'Softplus': 'BNLL', 'Abs': 'torch.abs'}
    """
    return {ONNX_NAMES[name.rpartition(".")[2].replace("_", "").lower()]: name for name in names}


_FLAGS = frozenset({"clip", "force_suppress", "iou_loss"})
"""Attributes of detection operators that are True or False; ONNX has numbers for them."""


def plain_settings(node: GraphNode) -> dict[str, Any]:
    """Return the attributes of an operator that ONNX lacks as Python values: flags, tuples and the rest."""
    return {
        name: bool(value) if name in _FLAGS else tuple(value) if isinstance(value, list | tuple) else value
        for name, value in node.attributes.items()
    }


def slice_ranges(node: GraphNode) -> list[tuple[int, int, int, int]]:
    """Return the ranges of a Slice as (axis counted from the front, begin, end, step >= 1).

    Raises:
        NotWritable: A range goes backwards.
    """
    rank, starts, ends = node.rank(0), node.ints(1), node.ints(2)
    axes = node.ints(3) if node.has(3) else range(len(starts))
    steps = node.ints(4) if node.has(4) else [1] * len(starts)
    if min(steps, default=1) < 1:
        raise NotWritable("a step back is not written")
    return [
        (axis % rank, begin, end, step)
        for axis, begin, end, step in zip(axes, starts, ends, steps, strict=True)
    ]


def permutation(node: GraphNode) -> list[int]:
    """Return the order of the axes that a Transpose makes; all in reverse by default."""
    return list(node.get("perm") or range(node.rank(0))[::-1])


def reshaped_sizes(node: GraphNode) -> list[int]:
    """Return the sizes that a node makes, for frameworks where 0 keeps an axis and -1 takes what is left.

    The first axis stays as it is if it is the batch, so that its size stays open, as do others that are open.

    Raises:
        NotWritable: They are computed, or more than one is open.
    """
    old, new = node.value(0).shape, node.outputs[0].shape
    if old is None or new is None:
        raise NotWritable("its sizes are computed")
    sizes = []
    for axis, size in enumerate(new):
        # of attention, the first axis is the batch times the heads: open sizes are told apart by their names
        is_kept = axis < len(old) and old[axis] == size and (axis == 0 or not isinstance(size, int))
        sizes.append(0 if is_kept else size if isinstance(size, int) else -1)
    if sizes.count(-1) > 1:
        raise NotWritable("more than one of its sizes is not known; give the input's sizes")
    return sizes


def repeats_elements(node: GraphNode) -> bool:
    """Return whether a Resize to nearest elements by whole factors repeats each element that often."""
    rule = node.get("coordinate_transformation_mode")
    nearest = node.get("nearest_mode")
    return (
        nearest == "floor" if rule == "asymmetric" else "half_pixel" in rule and nearest.startswith("round")
    )

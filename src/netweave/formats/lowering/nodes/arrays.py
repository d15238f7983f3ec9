"""The stored arrays of a node that is being written, in the form that frameworks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.files.node_writer import GraphNode


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

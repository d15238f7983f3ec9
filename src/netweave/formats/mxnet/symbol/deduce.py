"""Sizes of an input that no file gives, deduced from a net's weights.

MXNet stores no input sizes: the caller binds them. The first layer with weights behind an input says its
rank, its channels and its element type; height and width stay open, as they are in MXNet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.mxnet.symbol.settings import is_channels_last

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.vertex import Vertex

# fmt: off
SAME_CHANNELS = frozenset({
    "_copy", "identity", "BlockGrad", "BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "Activation",
    "LeakyReLU", "relu", "sigmoid", "tanh", "Dropout", "LRN", "L2Normalization", "InstanceNorm",
    "Pooling", "Pooling_v1", "clip", "UpSampling", "_plus_scalar", "_PlusScalar", "_minus_scalar",
    "_MinusScalar", "_rminus_scalar", "_RMinusScalar", "_mul_scalar", "_MulScalar", "_div_scalar",
    "_DivScalar", "broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div",
})
# fmt: on
"""Operators whose first input has the rank, the channels and the element type of their output."""


@dataclass(frozen=True, slots=True)
class Deduced:
    """Sizes and element type of an input, as far as they are known; axis 0 is the batch."""

    shape: tuple[int | None, ...]
    dtype: ir.DataType


def deduce(nodes: Sequence[Vertex], arrays: Mapping[str, np.ndarray]) -> dict[str, Deduced]:
    """Return what stored arrays tell about the inputs that lead to them, by name."""
    users: dict[Vertex, list[Vertex]] = {}
    for node in nodes:
        if node.inputs:
            users.setdefault(node.inputs[0].vertex, []).append(node)
    deduced: dict[str, Deduced] = {}
    for node in nodes:
        if node.is_variable and node.name not in arrays:
            known = next(filter(None, _behind(node, users, arrays)), None)
            if known is not None:
                deduced[node.name] = known
    return deduced


def _behind(
    start: Vertex, users: Mapping[Vertex, list[Vertex]], arrays: Mapping[str, np.ndarray]
) -> Iterator[Deduced | None]:
    seen, waiting = {start}, [start]
    while waiting:
        for node in users.get(waiting.pop(0), ()):
            yield _told_by(node, arrays)
            if node.op in SAME_CHANNELS and node not in seen:
                seen.add(node)
                waiting.append(node)


def _told_by(node: Vertex, arrays: Mapping[str, np.ndarray]) -> Deduced | None:
    weight = arrays.get(node.inputs[1].vertex.name) if len(node.inputs) > 1 else None
    if weight is None:
        return None
    dtype = ir.DataType.from_numpy(weight.dtype)
    sizes = [None] * (weight.ndim - 2)
    if node.op in {"Convolution", "Convolution_v1"} and weight.ndim > 2:
        groups = node.settings.count("num_group", 1)
        if is_channels_last(node.attributes.get("layout")):
            return Deduced((None, *sizes, weight.shape[-1] * groups), dtype)
        return Deduced((None, weight.shape[1] * groups, *sizes), dtype)
    if node.op == "Deconvolution" and weight.ndim > 2:
        return Deduced((None, weight.shape[0], *sizes), dtype)
    if node.op == "FullyConnected" and weight.ndim == 2:
        return Deduced((None, weight.shape[1]), dtype)
    return None

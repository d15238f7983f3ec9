"""What a net with weights tells about an input whose sizes no file gives.

MXNet stores no input sizes: the caller binds them. The first layer with weights behind an input says its
rank, its channels and its element type; height and width stay open, as they are in MXNet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.symbol.settings import Settings, is_channels_last

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from netweave.symbol.document import Document, Node

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


def deduce(document: Document, arrays: Mapping[str, np.ndarray]) -> dict[str, Deduced]:
    """Return what stored arrays tell about the inputs that lead to them, by name."""
    users: dict[int, list[int]] = {}
    for number, node in enumerate(document.nodes):
        if node.inputs:
            users.setdefault(node.inputs[0].node, []).append(number)
    deduced: dict[str, Deduced] = {}
    for number, node in enumerate(document.nodes):
        if node.is_variable and node.name not in arrays:
            known = next(filter(None, _behind(document, number, users, arrays)), None)
            if known is not None:
                deduced[node.name] = known
    return deduced


def _behind(
    document: Document, start: int, users: Mapping[int, list[int]], arrays: Mapping[str, np.ndarray]
) -> Iterator[Deduced | None]:
    seen, waiting = {start}, [start]
    while waiting:
        for number in users.get(waiting.pop(0), ()):
            node = document.nodes[number]
            yield _told_by(document, node, arrays)
            if node.op in SAME_CHANNELS and number not in seen:
                seen.add(number)
                waiting.append(number)


def _told_by(document: Document, node: Node, arrays: Mapping[str, np.ndarray]) -> Deduced | None:
    if len(node.inputs) < 2:
        return None
    weight = arrays.get(document.nodes[node.inputs[1].node].name)
    if weight is None:
        return None
    dtype = ir.DataType.from_numpy(weight.dtype)
    sizes = [None] * (weight.ndim - 2)
    if node.op in {"Convolution", "Convolution_v1"} and weight.ndim > 2:
        groups = Settings(node.attributes, place=node.place).count("num_group", 1)
        if is_channels_last(node.attributes.get("layout")):
            return Deduced((None, *sizes, weight.shape[-1] * groups), dtype)
        return Deduced((None, weight.shape[1] * groups, *sizes), dtype)
    if node.op == "Deconvolution" and weight.ndim > 2:
        return Deduced((None, weight.shape[0], *sizes), dtype)
    if node.op == "FullyConnected" and weight.ndim == 2:
        return Deduced((None, weight.shape[1]), dtype)
    return None

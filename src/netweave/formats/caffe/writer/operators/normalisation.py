"""Normalisations, and division by the Euclidean norm over channels: Normalize, a layer of the SSD branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.node_writer import NotWritable, producer_of
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode, power, writes
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    import onnx_ir as ir


@writes("BatchNormalization")
def batch_normalization(node: CaffeNode) -> list[CaffeLayer]:
    """By stored statistics, in the two layers that Caffe has for it; Scale only where it does something."""
    if node.get("training_mode"):
        raise NotWritable("it uses the statistics of the batch")
    gamma, beta = node.lazy_array(1), node.lazy_array(2)
    settings: dict[str, Any] = {"use_global_stats": True}
    if (epsilon := node.get("epsilon")) != 1e-5:  # Caffe's default
        settings["eps"] = epsilon
    count = Blob(lambda: np.ones(1, np.float32))
    is_plain = bool(np.all(gamma() == 1)) and not np.any(beta())
    normal = node.output if is_plain else node.inner()
    blobs = [node.blob(3), node.blob(4), count]
    norm = node.layer("BatchNorm", [node.name(0)], {"batch_norm_param": settings}, top=normal, blobs=blobs)
    if is_plain:
        return [norm]
    scale = {"scale_param": {"bias_term": True}}
    return [norm, node.layer("Scale", [normal], scale, blobs=[node.blob(1), node.blob(2)])]


@writes("LRN")
def lrn(node: CaffeNode) -> list[CaffeLayer]:
    """Across channels; a constant other than 1 becomes a factor behind, since OpenCV does not read ``k``."""
    if node.get("size") % 2 == 0:
        raise NotWritable("its window has an even size, and Caffe's are odd")
    alpha, beta, k = (node.get(name, usual) for name, usual in _LRN.items())
    step = ("LRN", {"lrn_param": {"local_size": node.get("size"), "alpha": alpha / k, "beta": beta}})
    return node.chain(step) if k == 1 else node.chain(step, power(scale=k**-beta))


_LRN = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}


@writes("ChannelLRN", domain=DOMAIN)
def channel_lrn(node: CaffeNode) -> list[CaffeLayer]:
    """Over a square of places of the same channel."""
    settings = {"local_size": node.get("size"), "alpha": node.get("alpha"), "beta": node.get("beta")}
    return node.chain(("LRN", {"lrn_param": {**settings, "norm_region": "WITHIN_CHANNEL"}}))


def epsilon_of_norm(division: ir.Node) -> float | None:
    """Return what is added to the sum of squares if a value is divided by its norm over channels."""
    x, norm = division.inputs
    maker = producer_of(norm)
    if maker is not None and maker.op_type == "ReduceL2":
        return 0.0 if maker.inputs[0] is x and _is_over_channels(maker) else None
    if maker is None or maker.op_type != "Sqrt":
        return None
    squares, eps = producer_of(maker.inputs[0]), 0.0
    if squares is not None and squares.op_type == "Add":
        values = list(squares.inputs)
        numbers = [value for value in values if value is not None and value.const_value is not None]
        if len(numbers) != 1 or numbers[0].const_value is None or numbers[0].const_value.size != 1:
            return None
        eps = float(numbers[0].const_value.numpy().reshape(-1)[0])
        squares = producer_of(next(value for value in values if value is not numbers[0]))
    return eps if squares is not None and _is_square_of(squares, x) else None


def _is_square_of(node: ir.Node, x: ir.Value | None) -> bool:
    """Return whether a node gives the sum of a value's squares over channels."""
    if node.op_type == "ReduceSumSquare":
        return node.inputs[0] is x and _is_over_channels(node)
    square = producer_of(node.inputs[0]) if node.op_type == "ReduceSum" and _is_over_channels(node) else None
    return square is not None and square.op_type == "Mul" and all(value is x for value in square.inputs)


def _is_over_channels(node: ir.Node) -> bool:
    axes = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return axes is not None and axes.numpy().tolist() == [1] and node.attributes.get_int("keepdims", 1) == 1


def normalized(node: CaffeNode, eps: float) -> list[CaffeLayer]:
    """Return the layer; its factors are ones, since Caffe has always some."""
    channels = node.shape(0)[1]
    if channels is None or node.rank(0) != 4:
        raise NotWritable("Caffe normalises images with a known number of channels")
    settings = {"across_spatial": False, "channel_shared": False, "eps": eps}
    ones = Blob(lambda: np.ones(channels, np.float32))
    return [node.layer("Normalize", [node.name(0)], {"norm_param": settings}, blobs=[ones])]

"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.nodes.arrays import statistics_arrays
from netweave.formats.mxnet.writer.table import MXNetNode, writes
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol


@writes("BatchNormalization")
def batch_normalization(node: MXNetNode) -> Symbol:
    """By stored statistics."""
    statistics_arrays(node)  # rejects the statistics of a batch
    arrays = [node.array("gamma", 1), node.array("beta", 2)]
    arrays += [node.array("moving_mean", 3, kind="aux"), node.array("moving_var", 4, kind="aux")]
    settings = {"eps": node.get("epsilon"), "momentum": node.get("momentum"), "fix_gamma": False}
    return node.make("BatchNorm", node.symbol(0), *arrays, **settings)


@writes("LRN")
def lrn(node: MXNetNode) -> Symbol:
    """Across channels."""
    settings = {
        "alpha": node.get("alpha"),
        "beta": node.get("beta"),
        "knorm": node.get("bias"),
    }
    return node.make("LRN", node.symbol(0), nsize=node.get("size"), **settings)


@writes("ChannelLRN", domain=DOMAIN)
def channel_lrn(node: MXNetNode) -> Symbol:
    """Over a square of places of the same channel (Caffe): a mean of squares, and arithmetic."""
    x, size = node.symbol(0), node.get("size")
    window = {"kernel": (size, size), "pad": (size // 2, size // 2)}
    mean = node.make("Pooling", node.make("square", x), pool_type="avg", **window)
    scaled = node.make("_mul_scalar", mean, scalar=node.get("alpha"))
    base = node.make("_plus_scalar", scaled, scalar=1.0)
    return node.make("elemwise_mul", x, node.make("_power_scalar", base, scalar=-node.get("beta")))


@writes("InstanceNormalization")
def instance_normalization(node: MXNetNode) -> Symbol:
    """By the statistics of each picture and channel."""
    arrays = [node.array("gamma", 1), node.array("beta", 2)]
    return node.make("InstanceNorm", node.symbol(0), *arrays, eps=node.get("epsilon"))


@writes("LayerNormalization")
def layer_normalization(node: MXNetNode) -> Symbol:
    """By the statistics of the last axis."""
    if node.axis() != node.rank(0) - 1 or not node.has(2):
        raise NotWritable("it is not over the last axis, with a scale and a shift")
    arrays = [node.array("gamma", 1), node.array("beta", 2)]
    return node.make("LayerNorm", node.symbol(0), *arrays, eps=node.get("epsilon"))

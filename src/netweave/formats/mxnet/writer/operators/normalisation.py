"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.writing import Refused
from netweave.formats.mxnet.writer.table import Call, written
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.symbol import Symbol


@written("BatchNormalization")
def batch_normalization(call: Call) -> Symbol:
    """By stored statistics."""
    if call.get("training_mode", 0):
        raise Refused("it uses the statistics of the batch")
    arrays = [call.array("gamma", 1), call.array("beta", 2)]
    arrays += [call.array("moving_mean", 3, kind="aux"), call.array("moving_var", 4, kind="aux")]
    settings = {"eps": call.get("epsilon", 1e-5), "momentum": call.get("momentum", 0.9), "fix_gamma": False}
    return call.make("BatchNorm", call.symbol(0), *arrays, **settings)


@written("LRN")
def lrn(call: Call) -> Symbol:
    """Across channels."""
    settings = {
        "alpha": call.get("alpha", 1e-4),
        "beta": call.get("beta", 0.75),
        "knorm": call.get("bias", 1.0),
    }
    return call.make("LRN", call.symbol(0), nsize=call.get("size"), **settings)


@written("ChannelLRN", domain=DOMAIN)
def channel_lrn(call: Call) -> Symbol:
    """Over a square of places of the same channel (Caffe): a mean of squares, and arithmetic."""
    x, size = call.symbol(0), call.get("size")
    window = {"kernel": (size, size), "pad": (size // 2, size // 2)}
    mean = call.make("Pooling", call.make("square", x), pool_type="avg", **window)
    scaled = call.make("_mul_scalar", mean, scalar=call.get("alpha"))
    base = call.make("_plus_scalar", scaled, scalar=1.0)
    return call.make("elemwise_mul", x, call.make("_power_scalar", base, scalar=-call.get("beta")))


@written("InstanceNormalization")
def instance_normalization(call: Call) -> Symbol:
    """By the statistics of each picture and channel."""
    arrays = [call.array("gamma", 1), call.array("beta", 2)]
    return call.make("InstanceNorm", call.symbol(0), *arrays, eps=call.get("epsilon", 1e-5))


@written("LayerNormalization")
def layer_normalization(call: Call) -> Symbol:
    """By the statistics of the last axis."""
    if call.axis("axis", -1) != call.rank(0) - 1 or not call.has(2):
        raise Refused("it is not over the last axis, with a scale and a shift")
    arrays = [call.array("gamma", 1), call.array("beta", 2)]
    return call.make("LayerNorm", call.symbol(0), *arrays, eps=call.get("epsilon", 1e-5))

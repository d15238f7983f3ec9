"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.table import Call, lazily, power, written
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.caffe.writer.layer import CaffeLayer


@written("BatchNormalization")
def batch_normalization(call: Call) -> list[CaffeLayer]:
    """By stored statistics, in the two layers that Caffe has for it; Scale only where it does something."""
    if call.get("training_mode", 0):
        raise Refused("it uses the statistics of the batch")
    gamma, beta = call.lazily(1), call.lazily(2)
    settings: dict[str, Any] = {"use_global_stats": True}
    if (epsilon := call.get("epsilon", 1e-5)) != 1e-5:
        settings["eps"] = epsilon
    count = lazily(lambda: np.ones(1, np.float32))
    is_plain = bool(np.all(gamma() == 1)) and not np.any(beta())
    normal = call.output if is_plain else call.inner()
    blobs = [call.blob(3), call.blob(4), count]
    norm = call.layer("BatchNorm", [call.name(0)], {"batch_norm_param": settings}, top=normal, blobs=blobs)
    if is_plain:
        return [norm]
    scale = {"scale_param": {"bias_term": True}}
    return [norm, call.layer("Scale", [normal], scale, blobs=[call.blob(1), call.blob(2)])]


@written("LRN")
def lrn(call: Call) -> list[CaffeLayer]:
    """Across channels; a constant other than 1 becomes a factor behind, since OpenCV does not read ``k``."""
    if call.get("size") % 2 == 0:
        raise Refused("its window has an even size, and Caffe's are odd")
    alpha, beta, k = (call.get(name, usual) for name, usual in _LRN.items())
    step = ("LRN", {"lrn_param": {"local_size": call.get("size"), "alpha": alpha / k, "beta": beta}})
    return call.chain(step) if k == 1 else call.chain(step, power(scale=k**-beta))


_LRN = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}


@written("ChannelLRN", domain=DOMAIN)
def channel_lrn(call: Call) -> list[CaffeLayer]:
    """Over a square of places of the same channel."""
    settings = {"local_size": call.get("size"), "alpha": call.get("alpha"), "beta": call.get("beta")}
    return call.chain(("LRN", {"lrn_param": {**settings, "norm_region": "WITHIN_CHANNEL"}}))

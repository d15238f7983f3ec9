"""Normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.layer import Blob, CaffeLayer
from netweave.formats.caffe.writer.table import CaffeNode, power, writes
from netweave.graph import DOMAIN


@writes("BatchNormalization")
def batch_normalization(node: CaffeNode) -> list[CaffeLayer]:
    """By stored statistics, in the two layers that Caffe has for it; Scale only where it does something."""
    if node.get("training_mode"):
        raise NotWritable("it uses the statistics of the batch")
    gamma, beta = node.lazy_array(1), node.lazy_array(2)
    settings: dict[str, Any] = {"use_global_stats": True}
    if (epsilon := node.get("epsilon")) != 1e-5:
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

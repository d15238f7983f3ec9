"""The net as a job of SINGA, with its weights in a checkpoint; the epsilon is cuDNN's there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import netweave
from tests.comparison.planted.plan import CLASSES, IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays
from tests.formats.singa.nets import conf, data, layer
from tests.oracles.singa_net import checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

POOLINGS = {"max": "MAX", "average": "AVG"}
ENDS = {"softmax": "kSoftmax", "sigmoid": "kSigmoid"}
EPSILON = 1e-5


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    (folder / "job.conf").write_text(text(plan))
    if not weights:
        return netweave.load(folder / "job.conf")
    (folder / "step9-worker0").write_bytes(checkpoint(stored(plan)))
    return netweave.load(folder / "job.conf", folder / "step9-worker0")


def text(plan: Plan) -> str:
    """Return the definition."""
    if (plan.eps, plan.slope, plan.scale, plan.fixed_gamma) != (EPSILON, 0.0, 1.0, False):
        raise ValueError("SINGA has no setting for this")
    rows = [data(IN, SIZE, SIZE)]
    last = "data"

    def add(kind: str, name: str, settings: str = "", params: str = "") -> None:
        nonlocal last
        rows.append(layer(kind, settings, sources=last, name=name, params=params))
        last = name

    def windows(size: int, pool: str) -> str:
        return f"pooling_conf {{ pool: {POOLINGS[pool]} kernel: {size} stride: 1 }}"

    conv = f"num_filters: {MIDDLE} kernel: 3 stride: 1"
    add("kCConvolution", "conv1", f"convolution_conf {{ {conv} pad: 1 }}", "conv1.weight")
    add("kCudnnBM", "bn1", params="bn1.gamma bn1.beta bn1.mean bn1.inverse")
    add("kReLU", "act1")
    if plan.lrn is not None:
        add("kLRN", "scale1", f"lrn_conf {{ local_size: {LRN_SIZE} alpha: {plan.lrn} beta: {LRN_BETA} }}")
    add("kCConvolution", "conv2", f"convolution_conf {{ {conv} pad: {plan.pad} }}", "conv2.weight conv2.bias")
    add("kActivation", "act2", f"activation_conf {{ type: {plan.activation.upper()} }}")
    add("kCPooling", "pool", windows(POOL, plan.pooling))
    add("kCPooling", "gap", windows(plan.pooled, "average"))
    add("kInnerProduct", "fc", f"innerproduct_conf {{ num_output: {CLASSES} }}", "fc.weight fc.bias")
    add(ENDS[plan.end], "prob")
    return conf(*rows)


def stored(plan: Plan) -> dict[str, np.ndarray]:
    """Return the arrays in SINGA's layout: filters as matrices, deviations the other way up."""
    found = arrays(plan)
    variance = found.pop("bn1.variance")
    found["bn1.inverse"] = 1 / np.sqrt(variance + np.float32(EPSILON))
    found |= {key: x.reshape(1, MIDDLE, 1, 1) for key, x in found.items() if key.startswith("bn1.")}
    found |= {key: found[key].reshape(MIDDLE, -1) for key in ("conv1.weight", "conv2.weight")}
    return found

"""The net in Caffe's text, with its weights in a ``.caffemodel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import netweave
from netweave.formats.caffe.schema import caffe_schema
from tests.comparison.planted.plan import CLASSES, IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

POOLINGS = {"max": "MAX", "average": "AVE"}
ENDS = {"softmax": "Softmax", "sigmoid": "Sigmoid"}


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    (folder / "net.prototxt").write_text(text(plan))
    if weights:
        (folder / "net.caffemodel").write_bytes(model(plan))
    return netweave.load(folder / "net.prototxt")


def text(plan: Plan) -> str:
    """Return the definition."""
    dims = " ".join(f"dim: {size}" for size in (1, IN, SIZE, SIZE))
    rows = [f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}']
    conv = f"num_output: {MIDDLE} kernel_size: 3"
    last = "data"

    def add(name: str, kind: str, settings: str = "") -> None:
        nonlocal last
        rows.append(f'layer {{ name: "{name}" type: "{kind}" bottom: "{last}" top: "{name}" {settings} }}')
        last = name

    add("conv1", "Convolution", f"convolution_param {{ {conv} pad: 1 bias_term: false }}")
    add("bn1", "BatchNorm", f"batch_norm_param {{ eps: {plan.eps} }}")
    if plan.fixed_gamma:
        add("bn1_shift", "Bias")
    else:
        add("bn1_scale", "Scale", "scale_param { bias_term: true }")
    add("act1", "ReLU", f"relu_param {{ negative_slope: {plan.slope} }}")
    if plan.lrn is not None:
        add("scale1", "LRN", f"lrn_param {{ local_size: {LRN_SIZE} alpha: {plan.lrn} beta: {LRN_BETA} }}")
    elif plan.scale != 1:
        add("scale1", "Power", f"power_param {{ scale: {plan.scale} }}")
    add("conv2", "Convolution", f"convolution_param {{ {conv} pad: {plan.pad} }}")
    add("act2", {"relu": "ReLU", "tanh": "TanH"}[plan.activation])
    add(
        "pool", "Pooling", f"pooling_param {{ pool: {POOLINGS[plan.pooling]} kernel_size: {POOL} stride: 1 }}"
    )
    add("gap", "Pooling", "pooling_param { pool: AVE global_pooling: true }")
    add("fc", "InnerProduct", f"inner_product_param {{ num_output: {CLASSES} }}")
    add("prob", ENDS[plan.end])
    return "\n".join(rows) + "\n"


def model(plan: Plan) -> bytes:
    """Return the weights: a BatchNorm's statistics have a factor of their own, by which they are divided."""
    found = arrays(plan)
    factor = np.full(1, 4.0, np.float32)
    stored = {
        "conv1": [found["conv1.weight"]],
        "bn1": [found["bn1.mean"] * factor, found["bn1.variance"] * factor, factor],
        "bn1_shift" if plan.fixed_gamma else "bn1_scale": [found["bn1.gamma"], found["bn1.beta"]][
            plan.fixed_gamma :
        ],
        "conv2": [found["conv2.weight"], found["conv2.bias"]],
        "fc": [found["fc.weight"], found["fc.bias"]],
    }
    layers = [
        {"name": name, "blobs": [{"shape": {"dim": list(x.shape)}, "data": x} for x in blobs]}
        for name, blobs in stored.items()
    ]
    return caffe_schema().encode("NetParameter", {"name": "net", "layer": layers})

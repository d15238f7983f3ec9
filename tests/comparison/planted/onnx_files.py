"""The net as ONNX; without weights, with arrays that Netweave drew for a net that came without them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import netweave
from netweave.graph import with_arrays
from netweave.graph.parameters import drawn
from tests.comparison.planted.plan import IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays
from tests.formats.onnx.models import model, node

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

    from netweave.graph import Graph

POOLINGS = {"max": "MaxPool", "average": "AveragePool"}


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    path = folder / "net.onnx"
    path.write_bytes(proto(plan).SerializeToString())
    graph = netweave.load(path)
    return graph if weights else _drawn(graph, folder, plan.seed)


def proto(plan: Plan) -> onnx.ModelProto:
    """Return the model."""
    stored = arrays(plan)
    nodes = []
    last = "data"

    def add(op_type: str, name: str, *more: str, **settings: object) -> None:
        nonlocal last
        inputs = " ".join([last, *(key if "." in key else f"{name}.{key}" for key in more)])
        nodes.append(node(op_type, inputs, name, name=name, **settings))
        last = name

    if plan.fixed_gamma:
        stored["bn1.gamma"] = np.ones(MIDDLE, np.float32)
    add("Conv", "conv1", "weight", pads=[1] * 4)
    add("BatchNormalization", "bn1", "gamma", "beta", "mean", "variance", epsilon=plan.eps)
    if plan.slope:
        add("LeakyRelu", "act1", alpha=plan.slope)
    else:
        add("Relu", "act1")
    if plan.lrn is not None:
        add("LRN", "scale1", size=LRN_SIZE, alpha=plan.lrn, beta=LRN_BETA)
    elif plan.scale != 1:
        stored["scale1.factor"] = np.float32(plan.scale)
        add("Mul", "scale1", "factor")
    add("Conv", "conv2", "weight", "bias", pads=[plan.pad] * 4)
    add({"relu": "Relu", "tanh": "Tanh"}[plan.activation], "act2")
    add(POOLINGS[plan.pooling], "pool", kernel_shape=[POOL, POOL])
    add("GlobalAveragePool", "gap")
    add("Flatten", "flat")
    add("Gemm", "fc", "weight", "bias", transB=1)
    add({"softmax": "Softmax", "sigmoid": "Sigmoid"}[plan.end], "prob")
    return model(nodes, {"data": [1, IN, SIZE, SIZE]}, ["prob"], stored)


def _drawn(graph: Graph, folder: Path, seed: int) -> Graph:
    """Write and read the net as a conversion with ``--random-weights`` leaves it."""
    stored = {key: entry for key, entry in graph.parameters.items() if key != "scale1.factor"}
    values = {key: drawn(f"{seed}/{key}", entry.shape, entry.role).numpy() for key, entry in stored.items()}
    bare = with_arrays(graph, values)
    bare.parameters |= {key: replace(entry, loaded=False) for key, entry in stored.items()}
    netweave.save(bare, folder / "drawn.onnx", random_weights=True)
    return netweave.load(folder / "drawn.onnx")

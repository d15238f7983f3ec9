"""The net as a graph of TensorFlow: frozen, with constants, or with variables whose checkpoint is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import netweave
from netweave.formats.tensorflow.attributes import TEXT
from tests.comparison.planted.plan import IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

POOLINGS = {"max": "MaxPool", "average": "AvgPool"}
ENDS = {"softmax": "Softmax", "sigmoid": "Sigmoid"}
TYPES = {"f": "DT_FLOAT", "i": "DT_INT32"}


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    nodes = _Nodes(weights=weights)
    nodes.net(plan)
    (folder / "net.pb").write_bytes(TEXT.encode("GraphDef", {"node": nodes.rows}))
    return netweave.load(folder / "net.pb")


class _Nodes:
    """The nodes of one graph.

    Args:
        weights: Whether the weights are constants, as a frozen graph has them.
    """

    def __init__(self, *, weights: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self._weights = weights
        self._last = ""

    def net(self, plan: Plan) -> None:
        """Add the net."""
        found = arrays(plan)
        windows = {"strides": [1, 1, 1, 1], "data_format": b"NHWC"}
        pooling = {**windows, "ksize": [1, POOL, POOL, 1], "padding": b"VALID"}
        self._node("Placeholder", "data", [], dtype="DT_FLOAT", shape=[-1, SIZE, SIZE, IN])
        self._last = "data"
        self._layer("Conv2D", "conv1", [self._filters(found, "conv1")], **windows, padding=b"SAME")
        gamma = (
            self._constant("bn1/gamma", np.ones(MIDDLE, np.float32))
            if plan.fixed_gamma
            else self._stored("bn1/gamma", found["bn1.gamma"])
        )
        more = [self._stored(f"bn1/{role}", found[f"bn1.{role}"]) for role in ("beta", "mean", "variance")]
        norm = {"epsilon": plan.eps, "is_training": False, "data_format": b"NHWC"}
        self._layer("FusedBatchNorm", "bn1", [gamma, *more], **norm)
        if plan.slope:
            self._layer("LeakyRelu", "act1", alpha=plan.slope)
        else:
            self._layer("Relu", "act1")
        if plan.lrn is not None:
            alpha = plan.lrn / LRN_SIZE
            self._layer("LRN", "scale1", depth_radius=LRN_SIZE // 2, bias=1.0, alpha=alpha, beta=LRN_BETA)
        elif plan.scale != 1:
            self._layer("Mul", "scale1", [self._constant("scale1/factor", np.float32(plan.scale))])
        padding = b"SAME" if plan.pad else b"VALID"
        self._layer("Conv2D", "conv2", [self._filters(found, "conv2")], **windows, padding=padding)
        self._layer("BiasAdd", "conv2/BiasAdd", [self._stored("conv2/bias", found["conv2.bias"])])
        self._layer({"relu": "Relu", "tanh": "Tanh"}[plan.activation], "act2")
        self._layer(POOLINGS[plan.pooling], "pool", **pooling)
        self._layer("Mean", "gap", [self._constant("gap/axes", np.array([1, 2], np.int32))], keep_dims=False)
        self._layer("MatMul", "fc", [self._stored("fc/weight", found["fc.weight"].T)])
        self._layer("BiasAdd", "fc/BiasAdd", [self._stored("fc/bias", found["fc.bias"])])
        self._layer(ENDS[plan.end], "prob")

    def _layer(self, op: str, name: str, more: list[str] | None = None, **settings: Any) -> None:
        self._node(op, name, [self._last, *(more or [])], T="DT_FLOAT", **settings)
        self._last = name

    def _filters(self, found: dict[str, np.ndarray], name: str) -> str:
        return self._stored(f"{name}/weight", found[f"{name}.weight"].transpose(2, 3, 1, 0))

    def _stored(self, name: str, array: np.ndarray) -> str:
        if self._weights:
            self._constant(name, array)
        else:
            self._node("VariableV2", name, [], dtype="DT_FLOAT", shape=list(array.shape))
        self._node("Identity", f"{name}/read", [name], T="DT_FLOAT")
        return f"{name}/read"

    def _constant(self, name: str, array: np.ndarray) -> str:
        kind = TYPES[array.dtype.kind]
        value = {"dtype": kind, "tensor_shape": _shape(array.shape), "tensor_content": array.tobytes()}
        self._node("Const", name, [], dtype=kind, value=value)
        return name

    def _node(self, op: str, name: str, inputs: list[str], **settings: Any) -> None:
        attributes = [{"key": key, "value": _attribute(key, value)} for key, value in settings.items()]
        self.rows.append({"name": name, "op": op, "input": inputs, "attr": attributes})


def _shape(sizes: Any) -> dict[str, Any]:
    return {"dim": [{"size": size} for size in sizes]}


def _attribute(key: str, value: Any) -> dict[str, Any]:
    if key == "shape":
        return {"shape": _shape(value)}
    kinds = {list: "list", bool: "b", int: "i", float: "f", bytes: "s", str: "type", dict: "tensor"}
    kind = kinds[type(value)]
    return {kind: {"i": value} if kind == "list" else value}

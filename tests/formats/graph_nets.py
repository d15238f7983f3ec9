"""Small graphs for the operators that ``written_nets`` lacks, among them those of the domain ``netweave``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import GraphBuilder
from tests.formats.framework_runs import Case
from tests.formats.written_nets import NORM, SIZES, drawn, ints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import onnx_ir as ir

    from netweave.files.node_writer import WriterTable
    from netweave.graph import Graph

X = drawn(*SIZES, seed=5)


def net(body: Callable[[Callable[..., ir.Value], ir.Value], ir.Value]) -> Graph:
    """Return a net; ``body`` is given how a node is added, with arrays among its inputs, and the input."""
    builder = GraphBuilder("net", format="test")

    def add(op_type: str, *inputs: ir.Value | np.ndarray, domain: str = "", **attributes: Any) -> ir.Value:
        values = [
            builder.constant(each, dtype=each.dtype) if isinstance(each, np.ndarray) else each
            for each in inputs
        ]
        return builder.add(op_type, values, attributes, domain=domain)

    return builder.finish([body(add, builder.input("x", SIZES))])


def one(op_type: str, *arrays: np.ndarray, domain: str = "", **attributes: Any) -> Graph:
    """Return a net of one operator."""
    return net(lambda add, x: add(op_type, x, *arrays, domain=domain, **attributes))


def of_positive(op_type: str) -> Graph:
    """Return a net of an operator of numbers above 1."""
    return net(lambda add, x: add(op_type, add("Add", add("Abs", x), np.array(1.5, np.float32))))


def of_small(op_type: str) -> Graph:
    """Return a net of an operator of numbers between -1 and 1."""
    return net(lambda add, x: add(op_type, add("Mul", add("Tanh", x), np.array(0.9, np.float32))))


def pool(op_type: str, kernel: int, stride: int, pads: list[int], rounding: str, **more: Any) -> Graph:
    """Return a pooling that is rounded as Caffe or MXNet does."""
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads, "rounding": rounding}
    return one(op_type, domain="netweave", **attributes, **more)


PLAIN = (
    *("Asinh", "Atan", "Ceil", "Cos", "Cosh", "Dropout", "Erf", "Floor", "Gelu", "Identity", "Mish", "Neg"),
    *("Sign", "Sin", "Sinh", "Softsign", "Tan"),
)

GRAPHS: dict[str, Graph] = {
    **{op_type: one(op_type) for op_type in PLAIN},
    **{op_type: of_positive(op_type) for op_type in ("Log", "Reciprocal", "Sqrt", "Acosh")},
    **{op_type: of_small(op_type) for op_type in ("Acos", "Asin", "Atanh")},
    **{op_type: one(op_type, ints(1), keepdims=1) for op_type in ("ReduceMax", "ReduceMin", "ReduceProd")},
    "ReduceMax over all places": one("ReduceMax", ints(2, 3), keepdims=1),
    "ReduceSum": one("ReduceSum", ints(2, 3), keepdims=0),
    "ReduceL1": one("ReduceL1", ints(1, 2, 3), keepdims=0),
    "Sum": net(lambda add, x: add("Sum", x, add("Relu", x), add("Tanh", x))),
    "Squeeze": net(lambda add, x: add("Squeeze", add("GlobalAveragePool", x), ints(2, 3))),
    "Unsqueeze": one("Unsqueeze", ints(1)),
    "Tile": one("Tile", ints(1, 2, 1, 3)),
    "SpaceToDepth": net(
        lambda add, x: add("SpaceToDepth", add("Slice", x, ints(0), ints(8), ints(2)), blocksize=2)
    ),
    "DepthToSpace": net(
        lambda add, x: add("DepthToSpace", add("Slice", x, ints(0), ints(4), ints(1)), blocksize=2)
    ),
    "InstanceNormalization": one("InstanceNormalization", NORM["g"], NORM["be"], epsilon=1e-3),
    "LayerNormalization": one("LayerNormalization", drawn(8), drawn(8, seed=1), axis=-1, epsilon=1e-3),
    "ChannelLRN": one("ChannelLRN", domain="netweave", size=3, alpha=0.3, beta=0.75),
    "maximum as Caffe": pool("MaxPool", 3, 2, [0] * 4, "caffe"),
    "maximum as Caffe, padded": pool("MaxPool", 3, 2, [1] * 4, "caffe"),
    "maximum as Caffe, which drops a window": pool("MaxPool", 2, 3, [1] * 4, "caffe"),
    "maximum as MXNet": pool("MaxPool", 2, 2, [0] * 4, "full"),
    "maximum as MXNet, padded": pool("MaxPool", 3, 2, [1] * 4, "full"),
    "mean as Caffe": pool("AveragePool", 3, 2, [0] * 4, "caffe"),
    "mean as Caffe, padded": pool("AveragePool", 3, 2, [1] * 4, "caffe"),
    "mean as Caffe, which drops a window": pool("AveragePool", 2, 3, [1] * 4, "caffe"),
    "mean as MXNet": pool("AveragePool", 2, 2, [0] * 4, "full"),
    "mean as MXNet, padded": pool("AveragePool", 3, 2, [1] * 4, "full", count_include_pad=1),
    "mean as MXNet, without padding": pool("AveragePool", 3, 2, [1] * 4, "full", count_include_pad=0),
}
"""By what they are about."""


def graph_cases(table: WriterTable[Any, Any], *, without: Collection[str] = ()) -> list[Case]:
    """Return those that a framework has all operators for, but some that it has in another form only."""
    return [
        Case(name, graph, {"x": X})
        for name, graph in GRAPHS.items()
        if name not in without and all(table.has(each.op_type, each.domain) for each in graph.nodes)
    ]

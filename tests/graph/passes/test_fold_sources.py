"""A folded array names the stored arrays that it comes from; one that comes from none is a setting."""

from __future__ import annotations

import numpy as np

from netweave.graph import GraphBuilder, Parameter, parameter_key
from netweave.graph.parameters import source_keys
from netweave.graph.passes import fold


def test_folded_arrays_name_their_sources() -> None:
    builder = GraphBuilder("net", format="onnx", files=("a.net",))
    x = builder.input("x", (1, 4))
    w, v = (builder.parameter(Parameter(key, (4, 4)), np.eye(4, dtype=np.float32)) for key in "wv")
    two, three = builder.constant(2.0), builder.constant(3.0)
    product = builder.add("Mul", [builder.add("Add", [w, v]), two])  # sources through two steps
    turned = builder.add("Transpose", [w], {"perm": [1, 0]})
    factor = builder.add("Mul", [two, three])
    for stored in (product, turned):
        x = builder.add("MatMul", [x, stored])
    graph = fold(builder.finish([builder.add("Mul", [x, factor])]))
    first, second, last = (node.inputs[1] for node in graph.nodes)
    assert [node.op_type for node in graph.nodes] == ["MatMul", "MatMul", "Mul"]
    assert (source_keys(first), parameter_key(first)) == (("w", "v"), None)
    assert (source_keys(second), parameter_key(second)) == (("w",), "w")
    assert source_keys(last) == ()

"""Nodes that are alike are inferred once: the shapes are those that every node has by itself."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netweave.graph import GraphBuilder, infer_shapes, shapes
from netweave.graph.graph import SETTLED, likeness


def repeated(sizes=(4, None, None)):
    """A net of the same few blocks, with an open size and one that only a run can tell."""
    builder = GraphBuilder("repeated", format="onnx")
    x = builder.input("data", (1, *sizes))
    weight = builder.constant(np.ones((4, 4, 3, 3), np.float32), name="w")
    for _ in range(3):
        x = builder.add("Conv", [x, weight], {"pads": [1, 1, 1, 1]})
        x = builder.add("Relu", [builder.add("Add", [x, x])])
        x = builder.add("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2]})
    chosen = []
    for _ in range(2):
        flat = builder.add("Reshape", [x, builder.constant([-1], dtype=np.int64)])
        places = builder.add("NonZero", [flat])
        chosen.append(builder.add("Tanh", [builder.add("Cast", [places], {"to": 1})]))
    return builder.finish([x, *chosen])


def dims(graph):
    return {v.name: str(v.shape) for node in graph.nodes for v in node.outputs}


def test_shapes_are_those_of_every_node_by_itself(monkeypatch):
    for sizes in ((4, 32, 40), (4, None, None)):
        graph = repeated(sizes)
        infer_shapes(graph)
        together = dims(graph)
        monkeypatch.setattr(shapes, "likeness", lambda node: None)
        infer_shapes(graph)
        monkeypatch.undo()
        assert together == dims(graph)


def test_two_sizes_that_only_a_run_can_tell_are_not_taken_for_the_same():
    graph = repeated()
    infer_shapes(graph)
    first, second = (value.shape[1] for value in graph.outputs[1:])
    assert first != second


def test_what_says_a_size_by_its_values_is_like_no_other():
    shape = ir.Value(name="s", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.INT64))
    x = ir.Value(name="x", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))
    assert likeness(ir.Node("", "Relu", [x])) is not None
    assert likeness(ir.Node("", "Add", [shape, shape])) is None
    assert "Reshape" not in SETTLED
    assert likeness(ir.Node("", "Reshape", [x, shape])) is None

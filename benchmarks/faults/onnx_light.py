"""Nets of the ONNX model zoo as ONNX's package brings them for its tests, with drawn arrays.

The package has them without weights: every array is a ConstantOfShape. Here each is drawn by its role.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import numpy_helper

from tests.oracles import recipe

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

ROLES = {
    ("Conv", 1): "filter", ("BatchNormalization", 1): "scale", ("BatchNormalization", 4): "variance",
    ("Mul", 1): "scale", ("Gemm", 1): "matrix",
}  # fmt: skip
"""Role of an array by the operator that reads it; the others are biases."""


def light_net(name: str) -> onnx.ModelProto:
    """Return a net with drawn arrays, nodes with names, an input ``data``, and an open batch."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    model.ir_version = 8  # before 4 every array must be an input too
    graph = model.graph
    shapes = {array.name: numpy_helper.to_array(array) for array in graph.initializer}
    empty = {node.output[0]: node for node in graph.node if node.op_type == "ConstantOfShape"}
    roles = _roles(graph)
    nodes = [node for node in graph.node if node.output[0] not in empty]
    for array in [
        numpy_helper.from_array(recipe.weight(key, tuple(shapes[node.input[0]]), roles.get(key, "bias")), key)
        for key, node in empty.items()
    ]:
        graph.initializer.append(array)
    entry = next(value for value in graph.input if len(value.type.tensor_type.shape.dim) == 4
                 and value.name not in shapes)  # fmt: skip
    for number, node in enumerate(nodes):
        node.name = f"{node.op_type.lower()}{number}"
        node.input[:] = ["data" if key == entry.name else key for key in node.input]
    entry.name = "data"
    entry.type.tensor_type.shape.dim[0].dim_param = "N"
    used = {key for node in nodes for key in node.input}
    kept = [array for array in graph.initializer if array.name in used]
    for field, values in (("node", nodes), ("initializer", kept), ("input", [entry])):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del getattr(graph, field)[:]
        getattr(graph, field).extend(copies)
    del graph.output[0].type.tensor_type.shape.dim[:]
    return onnx.shape_inference.infer_shapes(model)


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """Return the role of each array by the node that reads it, also through an Unsqueeze."""
    through = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Unsqueeze"}
    found = {}
    for node in graph.node:
        for index, key in enumerate(node.input):
            if node.op_type != "Unsqueeze":
                found[through.get(key, key)] = ROLES.get((node.op_type, index), "bias")
    return found

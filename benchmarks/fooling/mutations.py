"""Random changes of ONNX nets: another setting, another constant, another operator, one more or one less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx import GraphProto

    Draw = np.random.Generator

TEXTS = {
    "approximate": (b"none", b"tanh"),
    "coordinate_transformation_mode": (b"half_pixel", b"asymmetric", b"align_corners", b"pytorch_half_pixel"),
    "mode": (b"constant", b"reflect", b"edge", b"nearest", b"linear", b"DCR", b"CRD"),
    "nearest_mode": (b"floor", b"ceil", b"round_prefer_floor", b"round_prefer_ceil"),
}

UNCHANGED = {"to", "axis", "axes", "then_branch", "else_branch", "body", "value"}
"""Settings whose change makes no net, or another type."""

FAMILIES = (
    ("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Abs", "ThresholdedRelu", "HardSwish", "Softplus", "Mish"),
    ("Sigmoid", "HardSigmoid", "Tanh", "Softsign", "Erf"),
    ("Round", "Floor", "Ceil"),
    ("Add", "Sub", "Mul", "Max", "Min", "Div", "Mod"),
    ("Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    ("ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin"),
    ("Sqrt", "Log", "Reciprocal", "Identity"),
    ("MaxPool", "AveragePool"),
    ("And", "Or", "Xor"),
)


def mutate(model: ModelProto, seed: int) -> tuple[ModelProto, str] | None:
    """Return a copy of a net with one random change, and what that was; None if nothing can be changed."""
    draw = np.random.default_rng(seed)
    copy = ModelProto.FromString(model.SerializeToString())
    kinds: list[Callable[[ModelProto, Draw], str]] = [_setting, _constant, _constant, _operator, _inserted]
    kinds.append(_removed)
    for index in draw.permutation(len(kinds)):
        if what := kinds[index](copy, draw):
            return copy, what
    return None


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield the nodes of a graph and of its inner graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _nodes(attribute.g)


def _setting(model: ModelProto, draw: Draw) -> str:
    rows = [(n, a) for n in _nodes(model.graph) for a in n.attribute if a.name not in UNCHANGED]
    if not rows:
        return ""
    node, attribute = rows[int(draw.integers(len(rows)))]
    if attribute.type == AttributeProto.FLOAT:
        attribute.f *= float(draw.choice([0.5, 0.9, 1.1, 2.0, 10.0]))
    elif attribute.type == AttributeProto.INT:
        attribute.i = 1 - attribute.i if attribute.i in {0, 1} else attribute.i + int(draw.choice([-1, 1]))
    elif attribute.type == AttributeProto.STRING and attribute.name in TEXTS:
        attribute.s = bytes(draw.choice([t for t in TEXTS[attribute.name] if t != attribute.s]))
    elif attribute.type == AttributeProto.INTS:
        place = int(draw.integers(len(attribute.ints)))
        attribute.ints[place] = max(0, attribute.ints[place] + int(draw.choice([-1, 1])))
    else:
        return ""
    return f"setting {node.op_type}.{attribute.name}"


def _constant(model: ModelProto, draw: Draw) -> str:
    if not model.graph.initializer:
        return ""
    tensor = model.graph.initializer[int(draw.integers(len(model.graph.initializer)))]
    x = numpy_helper.to_array(tensor).copy()
    if not x.size:
        return ""
    reader = next((node for node in _nodes(model.graph) if tensor.name in node.input), None)
    place = np.unravel_index(int(draw.integers(x.size)), x.shape)
    if x.dtype.kind == "f":
        x[place] = x[place] * draw.choice([0.5, 0.9, 1.1, 2.0, 10.0]) if draw.integers(4) else x[place] + 1
    elif x.dtype.kind == "b":
        x[place] = ~x[place]
    else:
        limits = np.iinfo(x.dtype)
        x[place] = np.clip(int(x[place]) + int(draw.choice([-1, 1, 10])), limits.min, limits.max)
    tensor.CopyFrom(numpy_helper.from_array(x, tensor.name))
    return f"constant of {reader.op_type if reader is not None else 'nothing'}"


def _operator(model: ModelProto, draw: Draw) -> str:
    rows = [(node, family) for node in _nodes(model.graph) for family in FAMILIES if node.op_type in family]
    if not rows:
        return ""
    node, family = rows[int(draw.integers(len(rows)))]
    other = str(draw.choice([name for name in family if name != node.op_type]))
    what = f"operator {node.op_type} to {other}"
    node.op_type = other
    known = {"MaxPool": {"count_include_pad"}, "AveragePool": {"storage_order"}}.get(other, set())
    keeps = other in {"MaxPool", "AveragePool"} or other.startswith("Reduce")
    kept = [a for a in node.attribute if keeps and a.name not in known]
    del node.attribute[:]
    node.attribute.extend(kept)
    return what


def _inserted(model: ModelProto, draw: Draw) -> str:
    if not model.graph.node:  # of a trained net, all may have been folded into an output
        return ""
    place = int(draw.integers(len(model.graph.node)))
    node = model.graph.node[place]
    name = node.output[0]
    readers = [n for n in model.graph.node if name in n.input]
    if not readers or node.op_type in {"Constant", "If", "Loop"} or not _is_float(model, name):
        return ""
    new, nodes, arrays = f"{name}_inserted", [], []
    kind = str(draw.choice(["clip", "round", "relu", "half"]))
    if kind == "clip":
        bound = float(draw.choice([0.5, 3.0, 50.0, 255.0, 1000.0]))
        arrays = [numpy_helper.from_array(np.float32(s * bound), f"{new}_{s}") for s in (-1, 1)]
        nodes = [helper.make_node("Clip", [name, *(a.name for a in arrays)], [new], name=f"{new}_node")]
    elif kind == "half":
        nodes = [
            helper.make_node("Cast", [name], [f"{new}_half"], name=f"{new}_to", to=TensorProto.FLOAT16),
            helper.make_node("Cast", [f"{new}_half"], [new], name=f"{new}_from", to=TensorProto.FLOAT),
        ]
    else:
        nodes = [
            helper.make_node({"round": "Round", "relu": "Relu"}[kind], [name], [new], name=f"{new}_node")
        ]
    reader = readers[int(draw.integers(len(readers)))]
    reader.input[list(reader.input).index(name)] = new
    _put(model, place + 1, nodes)
    model.graph.initializer.extend(arrays)
    return f"inserted {kind} after {node.op_type}"


def _is_float(model: ModelProto, name: str) -> bool:
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # noqa: BLE001  # a net that cannot be inferred is another net's affair
        return False
    types = {v.name: v.type.tensor_type.elem_type for v in inferred.graph.value_info}
    return types.get(name) == TensorProto.FLOAT


def _put(model: ModelProto, place: int, nodes: list[NodeProto]) -> None:
    rows = list(model.graph.node)
    rows[place:place] = nodes
    del model.graph.node[:]
    model.graph.node.extend(rows)


def _removed(model: ModelProto, draw: Draw) -> str:
    """Take out a node that keeps shape and type, so that its readers read what it read."""
    same = {name for family in FAMILIES[:3] for name in family} | {"Clip", "Neg", "Softmax"}
    rows = [n for n in model.graph.node if n.op_type in same]
    outputs = {value.name for value in model.graph.output}
    rows = [n for n in rows if n.output[0] not in outputs and n.input[0]]
    if not rows:
        return ""
    node = rows[int(draw.integers(len(rows)))]
    for reader in model.graph.node:
        for i, name in enumerate(reader.input):
            if name == node.output[0]:
                reader.input[i] = node.input[0]
    what = f"removed {node.op_type}"
    model.graph.node.remove(node)
    return what

"""Faults planted in ONNX files."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from onnx import helper, numpy_helper

from benchmarks.faults.arrays import Stored, array_faults, spread
from benchmarks.faults.halves import UNSEEN
from benchmarks.faults.model import Fault, Net, Subject, Subjects, Wanted
from benchmarks.faults.onnx_nets import NETS, forms, light_net, renamed

COUNT = 2
"""Faults of one kind in one net."""

FIRST_ROLES = {
    ("Conv", 1): "filter", ("Conv", 2): "bias", ("Gemm", 1): "matrix", ("Gemm", 2): "bias",
    ("ConvTranspose", 2): "bias", ("BatchNormalization", 1): "gamma", ("BatchNormalization", 2): "bias",
    ("BatchNormalization", 3): "mean", ("BatchNormalization", 4): "variance", ("PRelu", 1): "slope",
    ("Mul", 1): "constant", ("MatMul", 1): "constant", ("Add", 1): "bias",
}  # fmt: skip
"""Role of an array by the operator that reads it and the input's place."""


NORM_AGAIN = "norm_again"
"""Name of a normalisation that is there twice."""


def subjects(wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its other forms and its faults."""
    for name in filter(lambda name: wanted(f"onnx-{name}"), NETS):
        model = NETS[name]()
        partners, names = {}, {}
        for form, made, new_names in forms(name, model):
            partners[form], names[form] = net_of(made), new_names
        norms = {node.name for node in model.graph.node if node.op_type == "BatchNormalization"}
        folded = {"tensorflow": frozenset({*norms, NORM_AGAIN})}  # TensorFlow's tool cuts them into products
        found = list(faults(model, count=COUNT))
        yield Subject(f"onnx-{name}", net_of(model), partners, found, names, folded)
    for name in filter(lambda name: wanted(f"onnx-{name}"), UNSEEN["onnx"]):
        model = light_net(name)
        other, new_names = renamed(model)
        found = list(faults(model, count=1))
        partners = {"renamed": net_of(other)}
        yield Subject(f"onnx-{name}", net_of(model), partners, found, {"renamed": new_names})


def net_of(model: onnx.ModelProto) -> Net:
    """Return a model as files."""
    entry = model.graph.input[0]
    shape = tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim[1:])
    return Net("onnx", {"net.onnx": model.SerializeToString()}, {entry.name: shape})


def faults(model: onnx.ModelProto, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net."""
    for kind, op, test, change, mismatches in EDITS:
        places = [i for i, n in enumerate(model.graph.node) if n.op_type == op and test(values(n))]
        for place in spread(places, count):
            made = _copied(model)
            node = made.graph.node[place]
            for name, value in change(values(node)).items():
                _set(node, name, value)
            yield Fault(kind, node.name, frozenset(mismatches), net_of(made))
    yield from _structure(model, count)
    arrays = {array.name: array for array in model.graph.initializer}
    numbers = {name: numpy_helper.to_array(array) for name, array in arrays.items()}
    for found in array_faults(_stored(model), numbers, count=count):
        made = _copied(model)
        stored = next(array for array in made.graph.initializer if array.name == found.stored.key)
        kind = found.kind if stored.dims else "wrong factor"
        wrong = found.values.reshape(stored.dims)
        stored.CopyFrom(numpy_helper.from_array(wrong, found.stored.key))
        yield Fault(kind, found.stored.layer, found.mismatches, net_of(made), found.in_table)


def _copied(model: onnx.ModelProto) -> onnx.ModelProto:
    made = copy.deepcopy(model)
    del made.graph.value_info[:]
    return made


def values(node: onnx.NodeProto) -> dict[str, Any]:
    """Return a node's attributes."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _set(node: onnx.NodeProto, name: str, value: Any) -> None:
    """Set an attribute, or with the name ``op_type`` the operator; None takes the attribute away."""
    if name == "op_type":
        node.op_type = value
        return
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept if value is None else [*kept, helper.make_attribute(name, value)])


def _stored(model: onnx.ModelProto) -> Iterator[Stored]:
    arrays = {array.name: array for array in model.graph.initializer}
    infos = {info.name: info for info in model.graph.value_info}
    made = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            role = FIRST_ROLES.get((node.op_type, index))
            if name not in arrays or role is None:
                continue
            image = None
            source = made.get(node.input[0])
            if role == "matrix" and source is not None and source.op_type == "Flatten":
                dims = infos[source.input[0]].type.tensor_type.shape.dim if source.input[0] in infos else []
                image = tuple(dim.dim_value for dim in dims[1:]) if len(dims) == 4 else None
            yield Stored(name, node.name, role, image)


Values = dict[str, Any]


def _any(_: Values) -> bool:
    return True


def _padded(old: Values) -> bool:
    return any(old.get("pads", ()))


def _grown(name: str, default: tuple[int, ...]) -> Callable[[Values], Values]:
    return lambda old: {name: [value + 1 for value in old.get(name, default)]}


def _moved(old: Values) -> Values:
    pads = old["pads"]
    return {"pads": [0, 0, pads[0] + pads[2], pads[1] + pads[3]]}


def _dilated(old: Values) -> Values:
    reach = (old["kernel_shape"][0] - 1) // 2
    return {"dilations": [2, 2], "pads": [pad + reach for pad in old.get("pads", [0] * 4)]}


def _pool(old: Values, op_type: str) -> Values:
    return {"op_type": op_type, "count_include_pad": None, "storage_order": None}


def _times(name: str, factor: float) -> Callable[[Values], Values]:
    return lambda old: {name: old[name] * factor}


def _to(**new: Any) -> Callable[[Values], Values]:
    return lambda old: new


def _same(pad: str) -> Callable[[Values], Values]:
    return lambda old: {"auto_pad": pad, "pads": None}


def _strided(old: Values) -> bool:
    return max(old.get("strides", [1])) > 1 and _padded(old)


def _windowed(old: Values) -> bool:
    return old.get("kernel_shape", [1])[0] > 1


def _rounded(old: Values) -> Values:
    return {"ceil_mode": 1 - old.get("ceil_mode", 0)}


COORDINATES = "coordinate_transformation_mode"
RESIZE = f"resize-{COORDINATES}"
DECONV = {"padding", "convtranspose-output_padding"}

Edit = tuple[str, str, Callable[[Values], bool], Callable[[Values], Values], set[str]]

EDITS: tuple[Edit, ...] = (
    ("conv: padding", "Conv", _any, _grown("pads", (0, 0, 0, 0)), {"padding"}),
    ("conv: padding at the end", "Conv", _padded, _moved, {"padding"}),
    ("conv: SAME_LOWER", "Conv", _strided, _same("SAME_LOWER"), {"padding"}),
    ("conv: SAME_UPPER", "Conv", _strided, _same("SAME_UPPER"), {"padding"}),
    ("conv: stride", "Conv", _any, _grown("strides", (1, 1)), {"stride"}),
    ("conv: dilation", "Conv", _windowed, _dilated, {"dilation", "padding"}),
    ("pool: operator", "MaxPool", _any, lambda old: _pool(old, "AveragePool"), {"operator"}),
    ("pool: operator", "AveragePool", _any, lambda old: _pool(old, "MaxPool"), {"operator"}),
    ("pool: rounding", "MaxPool", _any, _rounded, {"pool-rounding"}),
    ("pool: kernel", "MaxPool", _any, _grown("kernel_shape", ()), {"kernel-size"}),
    ("pool: kernel", "AveragePool", _any, _grown("kernel_shape", ()), {"kernel-size"}),
    ("pool: stride", "MaxPool", _any, _grown("strides", (1, 1)), {"stride"}),
    ("pool: padding counted", "AveragePool", _padded, _to(count_include_pad=0), {"count-include-pad"}),
    ("lrn: alpha not divided", "LRN", _any, lambda old: {"alpha": old["alpha"] * old["size"]}, {"lrn-alpha"}),
    ("lrn: size", "LRN", _any, lambda old: {"size": old["size"] + 2}, {"lrn-size"}),
    ("lrn: beta", "LRN", _any, _times("beta", 1.5), {"lrn-beta"}),
    ("lrn: k", "LRN", _any, _times("bias", 2.0), {"lrn-k"}),
    ("leaky slope", "LeakyRelu", _any, _to(alpha=0.01), {"leaky-slope"}),
    ("elu: alpha", "Elu", _any, _to(alpha=1.0), {"elu-alpha"}),
    ("relu: leaky", "Relu", _any, _to(op_type="LeakyRelu", alpha=0.1), {"operator", "leaky-slope"}),
    ("tanh: sigmoid", "Tanh", _any, _to(op_type="Sigmoid"), {"operator"}),
    ("hard sigmoid", "HardSigmoid", _any, _to(alpha=0.2), {"hardsigmoid-alpha"}),
    ("softmax axis", "Softmax", _any, _to(axis=0), {"softmax-axis"}),
    ("bn: eps", "BatchNormalization", _any, _to(epsilon=0.1), {"epsilon"}),
    ("ln: eps", "LayerNormalization", _any, _to(epsilon=0.1), {"epsilon"}),
    ("in: eps", "InstanceNormalization", _any, _to(epsilon=0.5), {"epsilon"}),
    ("gelu: tanh", "Gelu", _any, _to(approximate="tanh"), {"gelu-approximate"}),
    ("depth to space", "DepthToSpace", _any, _to(mode="DCR"), {"depthtospace-mode"}),
    ("resize: corners", "Resize", _any, _to(**{COORDINATES: "align_corners"}), {RESIZE}),
    ("resize: asymmetric", "Resize", _any, _to(**{COORDINATES: "asymmetric"}), {RESIZE}),
    ("resize: nearest", "Resize", _any, _to(mode="nearest"), {"resize-mode"}),
    ("deconv: shift", "ConvTranspose", _any, _to(pads=[0, 0, 1, 1], output_padding=[0, 0]), DECONV),
    ("deconv: padding", "ConvTranspose", _any, _to(pads=[0, 0, 2, 2]), {"padding"}),
)  # fmt: skip
"""Kind of fault, operator, which of its nodes, what is set to what, keys of what explains it."""

REMOVABLE = frozenset({"Relu", "LeakyRelu", "Tanh", "LRN", "BatchNormalization", "PRelu", "Mul", "Clip"})
TWICE = frozenset({"LeakyRelu", "Tanh", "LRN", "BatchNormalization", "PRelu"})


def _structure(model: onnx.ModelProto, count: int) -> Iterator[Fault]:
    nodes = model.graph.node
    missing, order = frozenset({"missing-layer"}), frozenset({"input-order"})
    for place in spread([i for i, n in enumerate(nodes) if n.op_type in REMOVABLE], count):
        made = _copied(model)
        gone = made.graph.node[place]
        for node in made.graph.node:
            node.input[:] = [gone.input[0] if name == gone.output[0] else name for name in node.input]
        del made.graph.node[place]
        yield Fault("layer left out", nodes[place].name, missing, net_of(made), in_table=False)
    for place in spread([i for i, n in enumerate(nodes) if n.op_type in TWICE], count):
        made = _copied(model)
        again = copy.deepcopy(made.graph.node[place])
        name = NORM_AGAIN if again.op_type == "BatchNormalization" else "again"
        again.name, again.input[0], again.output[0] = name, again.output[0], name
        for node in made.graph.node:
            node.input[:] = [name if source == again.input[0] else source for source in node.input]
        made.graph.node.insert(place + 1, again)
        yield Fault("layer twice", name, missing, net_of(made), in_table=False)
    for place in spread([i for i, n in enumerate(nodes) if n.op_type == "Concat"], count):
        made = _copied(model)
        made.graph.node[place].input[:2] = made.graph.node[place].input[1::-1]
        yield Fault("branches swapped", nodes[place].name, order, net_of(made), in_table=False)
    for place in spread([i for i, n in enumerate(nodes) if n.op_type == "Add"], count):
        made = _copied(model)
        made.graph.node[place].op_type = "Sub"
        yield Fault(
            "sum: difference", nodes[place].name, frozenset({"operator"}), net_of(made), in_table=False
        )

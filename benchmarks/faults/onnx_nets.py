"""Nets of ONNX, written with its own helper or brought by its package, and forms that compute the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.onnx_writer import OnnxWriter
from benchmarks.scale import generate
from tests.oracles import recipe

Names = dict[str, str]


class Writer(OnnxWriter):
    """Collects the nodes and arrays of one net, arrays drawn by their role.

    Args:
        shape: Size of the input, without the batch.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def drawn(self, name: str, shape: tuple[int, ...], role: str) -> str:
        """Store a drawn array and return its name."""
        return self.array(name, recipe.weight(name, shape, role))

    def conv(self, x: str, name: str, sizes: tuple[int, int, int], **attributes: Any) -> str:
        """Add a convolution of (outputs, inputs of a group, kernel)."""
        outputs, inputs, kernel = sizes
        weight = self.drawn(f"{name}.weight", (outputs, inputs, kernel, kernel), "filter")
        bias = self.drawn(f"{name}.bias", (outputs,), "bias")
        pads = attributes.pop("pads", [kernel // 2] * 4)
        return self.add("Conv", [x, weight, bias], name, pads=pads, kernel_shape=[kernel] * 2, **attributes)

    def norm(self, x: str, name: str, channels: int) -> str:
        """Add a normalisation with stored statistics."""
        roles = {"scale": "scale", "bias": "bias", "mean": "mean", "var": "variance"}
        arrays = [self.drawn(f"{name}.{key}", (channels,), role) for key, role in roles.items()]
        return self.add("BatchNormalization", [x, *arrays], name, epsilon=1e-5)

    def dense(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """Add a dense layer."""
        weight = self.drawn(f"{name}.weight", (outputs, inputs), "matrix")
        bias = self.drawn(f"{name}.bias", (outputs,), "bias")
        return self.add("Gemm", [x, weight, bias], name, transB=1)

    def finished(self, name: str, output: str) -> onnx.ModelProto:
        """Return the model."""
        ends = {"data": ["N", *self.shape]}, {output: None}
        model = self.model(name, *ends, opset=20, ir_version=9)
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        return onnx.shape_inference.infer_shapes(model)


def alexnet() -> onnx.ModelProto:
    """Return a small net in AlexNet's manner: normalisation over channels, groups, two dense layers."""
    w = Writer((3, 35, 35))
    x = w.add("Relu", [w.conv("data", "conv1", (16, 3, 5), strides=[2, 2])], "relu1")
    x = w.add("LRN", [x], "norm1", size=5, alpha=0.05, beta=0.75, bias=1.0)
    x = w.add("MaxPool", [x], "pool1", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    x = w.add("LeakyRelu", [w.conv(x, "conv2", (24, 8, 3), group=2)], "relu2", alpha=0.1)
    x = w.add("LRN", [x], "norm2", size=3, alpha=0.02, beta=0.5, bias=2.0)
    x = w.add(
        "AveragePool", [x], "pool2", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
        count_include_pad=1,
    )  # fmt: skip
    x = w.dense(w.add("Flatten", [x], "flatten"), "fc1", 24 * 5 * 5, 32)
    x = w.dense(w.add("Relu", [x], "relu3"), "fc2", 32, 10)
    return w.finished("alexnet", w.add("Softmax", [x], "prob", axis=1))


def lenet() -> onnx.ModelProto:
    """Return LeNet with a hyperbolic tangent and average pooling."""
    w = Writer((1, 28, 28))
    x = w.add("Tanh", [w.conv("data", "conv1", (8, 1, 5), pads=[0] * 4)], "tanh1")
    x = w.add("AveragePool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    x = w.add("Tanh", [w.conv(x, "conv2", (12, 8, 5), pads=[0] * 4)], "tanh2")
    x = w.add("MaxPool", [x], "pool2", kernel_shape=[2, 2], strides=[2, 2])
    x = w.dense(w.add("Flatten", [x], "flatten"), "fc1", 12 * 4 * 4, 24)
    x = w.dense(w.add("Tanh", [x], "tanh3"), "fc2", 24, 10)
    return w.finished("lenet", w.add("Softmax", [x], "prob", axis=1))


def mobile() -> onnx.ModelProto:
    """Return a small net in MobileNet 3's manner: depthwise, squeezes, hard sigmoids, clips."""
    w = Writer((3, 33, 33))
    x = w.norm(w.conv("data", "stem", (8, 3, 3), strides=[2, 2]), "stem_bn", 8)
    low, high = w.array("zero", np.float32(0)), w.array("six", np.float32(6))
    x = w.add("Clip", [x, low, high], "stem_relu6")
    for number in (1, 2, 3):
        name, y = f"block{number}", x
        y = w.norm(w.conv(y, f"{name}_expand", (16, 8, 1)), f"{name}_expand_bn", 16)
        y = w.add("Relu", [y], f"{name}_relu")
        y = w.norm(w.conv(y, f"{name}_depth", (16, 1, 3), group=16), f"{name}_depth_bn", 16)
        gate = w.conv(w.add("GlobalAveragePool", [y], f"{name}_squeeze"), f"{name}_gate", (16, 16, 1))
        gate = w.add("HardSigmoid", [gate], f"{name}_hard", alpha=1 / 6, beta=0.5)
        y = w.add("Mul", [y, gate], f"{name}_scaled")
        y = w.norm(w.conv(y, f"{name}_project", (8, 16, 1)), f"{name}_project_bn", 8)
        x = w.add("Add", [x, y], f"{name}_sum")
    x = w.add("Flatten", [w.add("GlobalAveragePool", [x], "pool")], "flatten")
    return w.finished("mobile", w.add("Softmax", [w.dense(x, "fc", 8, 10)], "prob", axis=1))


def inception() -> onnx.ModelProto:
    """Return a net with branches that are joined, and a constant factor."""
    w = Writer((3, 32, 32))
    x = w.add("Relu", [w.conv("data", "stem", (8, 3, 3), strides=[2, 2])], "stem_relu")
    for number in (1, 2):
        name = f"mix{number}"
        first = w.add("Relu", [w.conv(x, f"{name}_1x1", (4, 8, 1))], f"{name}_relu1")
        second = w.add("Elu", [w.conv(x, f"{name}_3x3", (4, 8, 3))], f"{name}_elu", alpha=0.8)
        third = w.add("MaxPool", [x], f"{name}_pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        third = w.conv(third, f"{name}_proj", (4, 8, 1))
        x = w.add("Concat", [first, second, third], f"{name}_join", axis=1)
        x = w.norm(w.conv(x, f"{name}_out", (8, 12, 1)), f"{name}_bn", 8)
        factor = w.array(f"{name}_factor", np.array(0.7, np.float32))
        x = w.add("LeakyRelu", [w.add("Mul", [x, factor], f"{name}_mul")], f"{name}_leaky", alpha=0.2)
    x = w.add("AveragePool", [x], "pool", kernel_shape=[4, 4], strides=[4, 4])
    x = w.dense(w.add("Flatten", [x], "flatten"), "fc", 8 * 4 * 4, 10)
    return w.finished("inception", w.add("Softmax", [x], "prob", axis=1))


def enhance() -> onnx.ModelProto:
    """Return a net that makes an image larger: depth to space, a transposed convolution, resizing."""
    w = Writer((3, 17, 17))
    x = w.add("PRelu", [w.conv("data", "conv1", (8, 3, 3)), w.drawn("slope1", (8, 1, 1), "slope")], "prelu1")
    scale, bias = w.drawn("in.scale", (8,), "scale"), w.drawn("in.bias", (8,), "bias")
    x = w.add("InstanceNormalization", [x, scale, bias], "instance", epsilon=1e-5)
    x = w.conv(x, "conv2", (16, 8, 3))
    x = w.add("DepthToSpace", [x], "shuffle", blocksize=2, mode="CRD")
    weight, bias = w.drawn("up.weight", (4, 6, 3, 3), "filter"), w.drawn("up.bias", (6,), "bias")
    x = w.add(
        "ConvTranspose", [x, weight, bias], "up", strides=[2, 2], kernel_shape=[3, 3], pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    )  # fmt: skip
    x = w.add("Relu", [x], "relu")
    scales = w.array("scales", np.array([1, 1, 1.5, 1.5], np.float32))
    x = w.add("Resize", [x, "", scales], "resize", mode="linear", coordinate_transformation_mode="half_pixel")
    return w.finished("enhance", w.add("Sigmoid", [w.conv(x, "conv3", (3, 6, 3))], "image"))


def attention() -> onnx.ModelProto:
    """Return one block of a transformer on a sequence of vectors."""
    w = Writer((12, 16))
    scale, bias = w.drawn("norm1.scale", (16,), "scale"), w.drawn("norm1.bias", (16,), "bias")
    x = w.add("LayerNormalization", ["data", scale, bias], "norm1", axis=-1, epsilon=1e-5)
    parts = [w.add("MatMul", [x, w.drawn(f"{k}.weight", (16, 16), "constant")], k) for k in ("q", "k", "v")]
    turned = w.add("Transpose", [parts[1]], "k_turned", perm=[0, 2, 1])
    scores = w.add("MatMul", [parts[0], turned], "scores")
    scores = w.add("Mul", [scores, w.array("root", np.array(0.25, np.float32))], "scaled")
    mixed = w.add("MatMul", [w.add("Softmax", [scores], "attend", axis=-1), parts[2]], "mixed")
    x = w.add("Add", ["data", mixed], "sum1")
    scale, bias = w.drawn("norm2.scale", (16,), "scale"), w.drawn("norm2.bias", (16,), "bias")
    y = w.add("LayerNormalization", [x, scale, bias], "norm2", axis=-1, epsilon=1e-5)
    y = w.add("MatMul", [y, w.drawn("up.weight", (16, 32), "matrix")], "up")
    y = w.add("Gelu", [w.add("Add", [y, w.drawn("up.bias", (32,), "bias")], "up_bias")], "gelu")
    y = w.add("MatMul", [y, w.drawn("down.weight", (32, 16), "matrix")], "down")
    return w.finished("attention", w.add("Add", [x, y], "sum2"))


def residual() -> onnx.ModelProto:
    """Return the scale benchmark's net with a few blocks, as Caffe cuts it, with an open batch."""
    model = generate.caffe_model(generate.draw_net(5, seed=3))
    return open_batch(model)


def open_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """Open the batch of a model and forget the size of its output."""
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return model


NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "alexnet": alexnet,
    "lenet": lenet,
    "mobile": mobile,
    "inception": inception,
    "enhance": enhance,
    "attention": attention,
    "residual": residual,
}


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Nets of the ONNX model zoo, as ONNX's package brings them: every array is a ConstantOfShape."""

LIGHT_ROLES = {
    ("Conv", 1): "filter", ("BatchNormalization", 1): "scale", ("BatchNormalization", 4): "variance",
    ("Mul", 1): "scale", ("Gemm", 1): "matrix",
}  # fmt: skip
"""Role of an array of such a net by the operator that reads it; the others are biases."""


def light_net(name: str) -> onnx.ModelProto:
    """Return a net with drawn arrays, nodes with names, an input ``data``, and an open batch."""
    model = onnx.load(LIGHT / f"{name}.onnx")
    model.ir_version = 8  # before 4 every array must be an input too
    graph = model.graph
    shapes = {array.name: numpy_helper.to_array(array) for array in graph.initializer}
    empty = {node.output[0]: node for node in graph.node if node.op_type == "ConstantOfShape"}
    roles = _light_roles(graph)
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


def _light_roles(graph: onnx.GraphProto) -> dict[str, str]:
    """Return the role of each array by the node that reads it, also through an Unsqueeze."""
    through = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Unsqueeze"}
    found = {}
    for node in graph.node:
        for index, key in enumerate(node.input):
            if node.op_type != "Unsqueeze":
                found[through.get(key, key)] = LIGHT_ROLES.get((node.op_type, index), "bias")
    return found


def renamed(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Names]:
    """Return the net with names that say nothing; only its input keeps its own."""
    made, names = copy.deepcopy(model), {"": "", "data": "data"}
    for number, node in enumerate(made.graph.node):
        names[node.name] = f"n{number * 7919 % 9973}"
        for index, name in enumerate(node.output):
            names.setdefault(name, f"v{number * 7919 % 9973}{'_' * index}")
    for number, array in enumerate(made.graph.initializer):
        names[array.name] = array.name = f"w{number * 7919 % 9973}"
    for node in made.graph.node:
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        node.name = names[node.name]
    for value in made.graph.output:
        value.name = names[value.name]
    del made.graph.value_info[:]
    return made, names


def shuffled(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Names]:
    """Return the net with its nodes in another order in which they can run."""
    made = copy.deepcopy(model)
    waiting, done, order = list(made.graph.node), {"", *(a.name for a in made.graph.initializer), "data"}, []
    while waiting:
        ready = [node for node in waiting if set(node.input) <= done]
        node = ready[-1]
        waiting.remove(node)
        order.append(node)
        done.update(node.output)
    nodes = [copy.deepcopy(node) for node in order]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made, {}


POINTWISE = frozenset({"Relu", "LeakyRelu", "Tanh", "Sigmoid", "Elu", "HardSigmoid", "Clip", "Add", "Mul"})
TO_NCHW, TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


def channels_last(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Names]:
    """Return the net with images as (N, H, W, C), as TensorFlow's exporters write it."""
    made = copy.deepcopy(model)
    infos = [*made.graph.value_info, *made.graph.input, *made.graph.output]
    images = {info.name for info in infos if len(info.type.tensor_type.shape.dim) == 4}
    arrays = {array.name for array in made.graph.initializer if array.dims}
    nodes = [new for node in made.graph.node for new in _turned(copy.deepcopy(node), images, arrays)]
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    dims = made.graph.input[0].type.tensor_type.shape.dim
    sizes = [dim.dim_value for dim in dims[1:]]
    for dim, size in zip(dims[1:], (*sizes[1:], sizes[0]), strict=True):
        dim.dim_value = size
    for value in made.graph.output:
        if value.name in images:
            value.type.tensor_type.ClearField("shape")
    return made, {}


def _turned(node: onnx.NodeProto, images: set[str], arrays: set[str]) -> Iterator[onnx.NodeProto]:
    """Yield a node for images in (N, H, W, C): as it is, or between two transpositions."""
    if node.op_type in POINTWISE | {"Concat"} and not arrays.intersection(node.input):
        for attribute in node.attribute:
            if attribute.name == "axis" and node.output[0] in images:
                attribute.i = 3
        yield node
        return
    for index, name in enumerate(node.input):
        if name in images:
            before = node.input[index] = f"{node.name}/nchw{index}"
            yield helper.make_node("Transpose", [name], [before], name=before, perm=TO_NCHW)
    yield node
    if node.output[0] in images:
        after, inner = node.output[0], f"{node.name}/nchw"
        node.output[0] = inner
        yield helper.make_node("Transpose", [inner], [after], name=f"{node.name}/nhwc", perm=TO_NHWC)


def tensorflow_cut(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Names]:
    """Return the scale benchmark's own cut of ``residual`` in TensorFlow's manner; rectifiers are named."""
    made = open_batch(generate.tensorflow_model(generate.draw_net(5, seed=3)))
    pairs = zip(
        *([n.name for n in net.graph.node if n.op_type == "Relu"] for net in (model, made)), strict=True
    )
    return made, dict(pairs)


def forms(name: str, model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto, Names]]:
    """Yield the other forms of a net."""
    yield "renamed", *renamed(model)
    yield "shuffled", *shuffled(model)
    if name == "residual":
        yield "tensorflow", *tensorflow_cut(model)
    elif len(model.graph.input[0].type.tensor_type.shape.dim) == 4:
        yield "channels last", *channels_last(model)

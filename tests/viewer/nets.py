"""Nets that show what a page must cope with, and comparisons of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from examples.padding import demo, make_weights
from netweave.comparison import Comparison, Evidence, Group, Status, Verdict
from netweave.graph import Graph, GraphBuilder, Layer, Parameter

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\"'&\u2028\x00"
"""A name that tries to be markup, script, an attribute, the end of a line and of a string."""


def write_example(folder: Path) -> None:
    """Write the example's net for Caffe and its port to MXNet, whose first pooling is wrong, with weights."""
    for file in (demo.NET, demo.PORT):
        shutil.copy(file, folder)
    make_weights.write(folder)


def write_faulty(folder: Path) -> None:
    """Write the net with three mistakes: the normalisation's epsilon, the first pooling, a missing ReLU."""
    text = demo.NET.read_text()
    text = text.replace('top: "conv1" }', 'top: "conv1" batch_norm_param { eps: 0.5 } }', 1)
    text = text.replace("pool: MAX kernel_size: 3 stride: 2", "pool: MAX kernel_size: 2 stride: 2")
    text = text.replace('layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }', "")
    (folder / "faulty.prototxt").write_text(text)
    shutil.copy(folder / "leaves.caffemodel", folder / "faulty.caffemodel")


def residual(num_blocks: int = 12, *, name: str = "residual", prefix: str = "") -> Graph:
    """Return a net of equal residual blocks of two convolutions each, named ``block0/conv1`` and so on."""
    builder = GraphBuilder(name, format="caffe", files=(f"{name}.prototxt",))
    draw = np.random.default_rng(0)
    x = builder.input("data", (1, 4, 8, 8))
    for index in range(num_blocks):
        y = x
        for step in (1, 2):
            key = f"{prefix}block{index}/conv{step}"
            settings = {"num_output": 4, "kernel_size": 3, "pad": 1}
            layer = Layer(key, key, "Convolution", settings, (str(y.name),), (key,), (f"{key}/0",))
            with builder.layer(layer):
                array = 0.1 * draw.standard_normal((4, 4, 3, 3)).astype(np.float32)
                weight = builder.parameter(Parameter(f"{key}/0", (4, 4, 3, 3)), array)
                y = builder.add("Conv", [y, weight], {"pads": [1] * 4}, outputs=key)
        key = f"{prefix}block{index}/add"
        with builder.layer(Layer(key, key, "Eltwise", {}, (str(x.name), str(y.name)), (key,))):
            x = builder.add("Add", [x, y], outputs=key)
    return builder.finish([x])


def hostile() -> Graph:
    """Return a net of which every name, type and setting tries to be markup."""
    builder = GraphBuilder(HOSTILE, format="caffe", files=(f"{HOSTILE}.prototxt",))
    x = builder.input(HOSTILE, (1, 4, 8, 8))
    for index in range(3):
        key = f"{HOSTILE}{index}"
        layer = Layer(key, key, HOSTILE, {HOSTILE: HOSTILE, "kernel": HOSTILE}, (str(x.name),), (key,))
        with builder.layer(layer):
            x = builder.add("Relu", [x], outputs=key)
    return builder.finish([x])


def shared(num_readers: int = 100) -> Graph:
    """Return a chain of which every link reads one and the same mask."""
    builder = GraphBuilder("shared", format="onnx", files=("shared.onnx",))
    x, mask = builder.input("data", (1, 4, 8, 8)), builder.input("mask", (1, 4, 8, 8))
    for index in range(num_readers):
        key = f"mul{index}"
        with builder.layer(Layer(key, key, "Mul", {}, (str(x.name), "mask"), (key,))):
            x = builder.add("Mul", [x, mask], outputs=key)
    return builder.finish([x])


def compared(a: Graph, b: Graph, statuses: dict[str, tuple[Status, Evidence]]) -> Comparison:
    """Return a comparison of two nets of one structure in which every layer is equal but those named."""
    groups = []
    for node_a, node_b in zip(a.nodes, b.nodes, strict=True):
        layers_a, layers_b = ([layer.key for layer in g.layers_of(n)] for g, n in ((a, node_a), (b, node_b)))
        status, evidence = statuses.get(layers_a[0], (Status.EQUAL, Evidence.VALUES))
        names = ((node_a.name,), (node_b.name,))
        groups.append(Group(*names, tuple(layers_a), tuple(layers_b), evidence, status, error=1e-7))
    return Comparison(a, b, Verdict.DIFFERENT, "different as the test says", groups=tuple(groups))


def transformer(num_blocks: int = 6, *, name: str = "gpt") -> Graph:
    """Return blocks in modules, named as the export of PyTorch names them, with copies that do nothing."""
    builder = GraphBuilder(name, format="onnx", files=(f"{name}.onnx",))

    def add(op_type: str, key: str, *inputs: ir.Value) -> ir.Value:
        layer = Layer(key, key, op_type, {}, tuple(str(value.name) for value in inputs), (f"{key}_output_0",))
        with builder.layer(layer):
            return builder.add(op_type, list(inputs), outputs=f"{key}_output_0")

    x = add("Relu", "/stem/Relu", builder.input("ids", (1, 16, 32)))
    for index in range(num_blocks):
        key = f"/b.{index}"
        y = add("Identity", f"{key}/attn/drop/Identity", add("Sigmoid", f"{key}/attn/gate/Sigmoid", x))
        y = add("Mul", f"{key}/attn/Mul", y, add("Tanh", f"{key}/attn/value/Tanh", x))
        x = add("Add", f"{key}/Add", x, y)
        y = add("Exp", f"{key}/mlp/act/Exp", add("Relu", f"{key}/mlp/fc/Relu", x))
        x = add("Add", f"{key}/Add_1", x, y)
    return builder.finish([add("Relu", "/head/Relu", x)])

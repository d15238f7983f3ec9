"""Small ONNX nets of what Keras has functions for and the other writers' nets have not."""

from __future__ import annotations

import numpy as np

from tests.formats.onnx.models import model, node
from tests.formats.recurrent_nets import NETS as RECURRENT
from tests.formats.recurrent_nets import expected
from tests.formats.written_nets import PAD, drawn, ints, net, one
from tests.graph.passes.attention_nets import FORMS

ROWS = {"x": ["N", 5, 6]}

FUNCTIONS = "Ceil Cos Erf Floor Neg Sign Sin"
POSITIVE = "Log Reciprocal Sqrt"


def along(sizes: tuple[int, ...], op_type: str, last: tuple[int, ...], *arrays: np.ndarray, **settings):
    """A net that sees its image as a sequence or a volume, of which one operator makes another image."""
    names = [f"a{number}" for number in range(len(arrays))]
    nodes = [
        node("Reshape", "x s", "v"),
        node(op_type, " ".join(["v", *names]), "p", **settings),
        node("Reshape", "p e", "y"),
    ]
    shapes = {"s": ints(0, 6, *sizes), "e": ints(0, *last)}
    return net(nodes, shapes | dict(zip(names, arrays, strict=True)))


SEQUENCE, VOLUME = (72,), (9, 4, 2)
"""The 9 x 8 places of an image otherwise."""

AXES = {
    "convolution of sequences": along(SEQUENCE, "Conv", (4, 9, 8), drawn(4, 6, 3), drawn(4), pads=[1, 1]),
    "convolution of sequences by steps": along(
        SEQUENCE, "Conv", (4, 7, 5), drawn(4, 6, 3), strides=[2], pads=[0, 0]
    ),
    "convolution of sequences by groups": along(
        SEQUENCE, "Conv", (4, 2, 34), drawn(4, 3, 3), drawn(4), group=2, dilations=[2]
    ),
    "convolution of volumes": along(
        VOLUME, "Conv", (4, 9, 8), drawn(4, 6, 3, 3, 1), drawn(4), pads=[1, 1, 0, 1, 1, 0]
    ),
    "convolution of volumes by steps": along(
        VOLUME, "Conv", (4, 4, 4), drawn(4, 6, 3, 2, 1), strides=[2, 2, 1]
    ),
    "maximum of sequences": along(SEQUENCE, "MaxPool", (6, 4, 9), kernel_shape=[2], strides=[2]),
    "maximum of volumes": along(VOLUME, "MaxPool", (6, 3, 2), kernel_shape=[3, 2, 2], strides=[3, 2, 2]),
    "mean of sequences": along(SEQUENCE, "AveragePool", (6, 8, 3), kernel_shape=[3], strides=[3]),
    "mean of volumes": along(VOLUME, "AveragePool", (6, 4, 3), kernel_shape=[2, 2, 2], strides=[2, 1, 1]),
    **{
        f"{name} of {noun}": along(sizes, name, (6, 1, 1))
        for name in ("GlobalAveragePool", "GlobalMaxPool")
        for noun, sizes in (("sequences", SEQUENCE), ("volumes", VOLUME))
    },
}
"""Operators over one axis and over three."""

NETS = {
    **AXES,
    **{f"attention, {name}": form.net for name, form in FORMS.items() if name != "changed by head"},
    "gelu by a tangent": one("Gelu", approximate="tanh"),
    **{name: one(name) for name in FUNCTIONS.split()},
    **{name: net([node("Exp", "x", "e"), node(name, "e", "y")]) for name in POSITIVE.split()},
    **{name: one(name) for name in ("Softsign", "Mish", "Gelu")},
    **{name: one(name) for name in ("Identity", "Dropout")},
    "sum of three": net([node("Tanh", "x", "t"), node("Abs", "x", "a"), node("Sum", "x t a", "y")]),
    "quotient": net([node("Exp", "x", "e"), node("Div", "x e", "y")]),
    "number by a value": net(
        [node("Exp", "x", "e"), node("Div", "a e", "y")], {"a": np.float32(2)}
    ),
    "not below a number": one("Max", {"a": np.float32(0.2)}),
    "power": net([node("Exp", "x", "e"), node("Pow", "e a", "y")], {"a": np.float32(0.75)}),
    **{
        f"{name} over {axes}, {keeps}": one(name, {"axes": ints(*axes)}, keepdims=keeps)
        for name, axes, keeps in (
            ("ReduceSum", (1,), 1), ("ReduceSum", (2,), 0), ("ReduceMax", (3,), 1), ("ReduceMean", (1,), 0),
            ("ReduceMin", (1, 2), 1), ("ReduceProd", (1,), 1), ("ReduceL1", (2, 3), 0), ("ReduceL2", (1,), 1),
            ("ReduceSumSquare", (1, 2, 3), 0),
        )
    },
    "sums of rows": model([node("ReduceSum", "x a", "y", keepdims=0)], ROWS, ["y"], {"a": ints(1)}),
    "unit length": net(
        [node("ReduceL2", "x a", "n"), node("Clip", "n low", "m"), node("Expand", "m s", "e"),
         node("Div", "x e", "y")],
        {"a": ints(1), "low": np.float32(1e-12), "s": ints(1, 6, 9, 8)},
    ),
    "three equal parts": net(
        [node("Split", "x", "a b c", axis=1, num_outputs=3), node("Add", "a c", "y")],
    ),
    "channels of a part": one("Slice", {"s": ints(1), "e": ints(-2), "a": ints(1)}),
    "each second channel": one("Slice", {"s": ints(0), "e": ints(1 << 40), "a": ints(1), "t": ints(2)}),
    "one channel": one("Gather", {"i": np.array(2)}, axis=1),
    "channels the other way": one("Gather", {"i": ints(5, 4, 3, 2, 1, 0)}, axis=1),
    "whole numbers": net(
        [node("Mul", "x nine", "m"), node("Cast", "m", "i", to=6), node("Cast", "i", "y", to=1)],
        {"nine": np.float32(9)},
    ),
    "batch in the middle": net([node("Transpose", "x", "t", perm=[1, 0, 2, 3]), node("Relu", "t", "y")]),
    "channels to the batch": one("Reshape", {"s": ints(-1, 3, 9, 8)}),
    "rows of a batch": model([node("Reshape", "x s", "y")], ROWS, ["y"], {"s": ints(-1, 6)}),
    "an axis more": model(
        [node("Unsqueeze", "x a", "u"), node("Relu", "u", "r"), node("Squeeze", "r a", "y")],
        {"x": ["N", "M"]}, ["y"], {"a": ints(1)},
    ),
    "products of rows": model(
        [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "y")], ROWS, ["y"]
    ),
    "layer normalisation": one(
        "LayerNormalization", {"g": drawn(6, 9, 8), "b": drawn(6, 9, 8, seed=1)}, axis=1
    ),
    "layer normalisation of rows": model(
        [node("LayerNormalization", "x g", "y")], ROWS, ["y"], {"g": drawn(6)}
    ),
    "instance normalisation": one("InstanceNormalization", {"g": drawn(6), "b": drawn(6, seed=1)}),
    "group normalisation": one("GroupNormalization", {"g": drawn(6), "b": drawn(6, seed=1)}, num_groups=3),
    "normalisation of steps": model(
        [node("BatchNormalization", "x g b m v", "y")], ROWS, ["y"],
        {"g": drawn(5), "b": drawn(5, seed=1), "m": drawn(5, seed=2), "v": drawn(5, seed=3, low=0.5)},
    ),
    "longer at its end than it is padded": one(
        "ConvTranspose", {"w": drawn(6, 3, 4, 4), "b": drawn(3)}, strides=[2, 2], output_padding=[1, 0]
    ),
    "strides larger than the kernel": one(
        "ConvTranspose", {"w": drawn(6, 3, 2, 2), "b": drawn(3)}, strides=[3, 2], pads=[1, 0, 0, 0]
    ),
    "strides much larger": one(
        "ConvTranspose", {"w": drawn(6, 3, 1, 1), "b": drawn(3)}, strides=[3, 3], output_padding=[1, 2]
    ),
    "resized": net([node("Resize", "x - - s", "y", mode="linear")], {"s": ints(3, 6, 12, 14)}),
    "maximum of the other half": net(
        [node("Neg", "x", "n"), node("MaxPool", "n", "y", kernel_shape=[3, 2], strides=[2, 1], pads=PAD)]
    ),
    **RECURRENT,
}  # fmt: skip

__all__ = ["NETS", "expected"]

"""Small ONNX nets, one for each thing that a writer of nets must say, and what ONNX Runtime makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from tests.formats.onnx.models import model, node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx

SIZES = (2, 6, 9, 8)
"""Batch, channels, height and width of the input of each net."""


def drawn(*shape: int, seed: int = 0, low: float = -1.0) -> np.ndarray:
    """Return numbers between ``low`` and 1."""
    return np.random.default_rng(seed).uniform(low, 1.0, shape).astype(np.float32)


def one(op_type: str, arrays: Mapping[str, Any] | None = None, **attributes: Any) -> onnx.ModelProto:
    """Return a net of one operator, which reads the input and then the arrays, in their order."""
    made = node(op_type, " ".join(["x", *(arrays or {})]), "y", name=op_type.lower(), **attributes)
    return net([made], arrays)


def net(nodes: list[onnx.NodeProto], arrays: Mapping[str, Any] | None = None) -> onnx.ModelProto:
    """Return a net from ``x`` to ``y``."""
    return model(nodes, {"x": ["N", *SIZES[1:]]}, ["y"], arrays)


def ints(*numbers: int) -> np.ndarray:
    """Return whole numbers as ONNX takes them."""
    return np.array(numbers, np.int64)


PAD = [1, 1, 1, 1]
W = {"w": drawn(4, 6, 3, 3)}
WB = {**W, "b": drawn(4)}
NORM = {"g": drawn(6), "be": drawn(6, seed=1), "m": drawn(6, seed=2), "v": drawn(6, seed=3, low=0.5)}

NETS: dict[str, onnx.ModelProto] = {
    "conv": one("Conv", WB, pads=[1, 1, 1, 1]),
    "conv without bias": one("Conv", W, strides=[2, 1]),
    "conv dilated": one("Conv", WB, dilations=[2, 2], pads=[2, 2, 2, 2]),
    "conv padded at its end": one("Conv", WB, pads=[0, 0, 1, 1], strides=[2, 2]),
    "conv padded at one side": one("Conv", WB, pads=[2, 0, 0, 1]),
    "conv by groups": one("Conv", {"w": drawn(4, 3, 3, 2)}, group=2),
    "depthwise": one("Conv", {"w": drawn(6, 1, 3, 3), "b": drawn(6)}, group=6, pads=[1, 1, 1, 1]),
    "conv by a rule": one("Conv", WB, auto_pad="SAME_UPPER", strides=[2, 2]),
    "deconvolution": one("ConvTranspose", {"w": drawn(6, 3, 4, 4), "b": drawn(3)}, strides=[2, 2], pads=PAD),
    "deconvolution by groups": one("ConvTranspose", {"w": drawn(6, 2, 2, 2)}, strides=[2, 2], group=3),
    "deconvolution with more at its end": one(
        "ConvTranspose", {"w": drawn(6, 3, 3, 3)}, strides=[2, 2], pads=PAD, output_padding=[1, 1]
    ),
    "maximum": one("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "maximum rounded up": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "maximum rounded down": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=PAD),
    "maximum padded at its end": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
    "maximum with gaps, padded at its end": one(
        "MaxPool", kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1]
    ),
    "mean": one("AveragePool", kernel_shape=[2, 3], strides=[2, 1]),
    "mean with its padding": one("AveragePool", kernel_shape=[3, 3], pads=PAD, count_include_pad=1),
    "mean without its padding": one("AveragePool", kernel_shape=[3, 3], pads=PAD),
    "mean rounded up": one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "global mean": one("GlobalAveragePool"),
    "global maximum": one("GlobalMaxPool"),
    "mean over axes": one("ReduceMean", {"axes": ints(2, 3)}, keepdims=0),
    "normalisation": one("BatchNormalization", NORM, epsilon=1e-3),
    "lrn": one("LRN", size=5, alpha=0.01, beta=0.6, bias=2.0),
    "relu": one("Relu"),
    "leaky": one("LeakyRelu", alpha=0.2),
    "elu": one("Elu", alpha=0.7),
    "slopes": one("PRelu", {"slope": drawn(6, 1, 1)}),
    "sigmoid": one("Sigmoid"),
    "tanh": one("Tanh"),
    "softplus": one("Softplus"),
    "absolute": one("Abs"),
    "exponential": one("Exp"),
    "clipped to 0 and 6": one("Clip", {"low": np.float32(0), "high": np.float32(0.6)}),
    "clipped": one("Clip", {"low": np.float32(-0.4), "high": np.float32(0.5)}),
    "clipped below": one("Clip", {"low": np.float32(-0.4)}),
    "hard sigmoid": one("HardSigmoid", alpha=0.3, beta=0.4),
    "hard swish": one("HardSwish"),
    "softmax": one("Softmax", axis=1),
    "log of a softmax": one("LogSoftmax", axis=1),
    "swish": net([node("Sigmoid", "x", "s"), node("Mul", "x s", "y")]),
    "dense": net(
        [node("Flatten", "x", "f"), node("Gemm", "f w b", "y", transB=1)],
        {"w": drawn(5, 432), "b": drawn(5)},
    ),
    "dense without bias": net([node("Flatten", "x", "f"), node("MatMul", "f w", "y")], {"w": drawn(432, 5)}),
    "dense with a bias behind": net(
        [node("Flatten", "x", "f"), node("MatMul", "f w", "m"), node("Add", "m b", "y")],
        {"w": drawn(432, 5), "b": drawn(5)},
    ),
    "dense with factors": net(
        [node("Flatten", "x", "f"), node("Gemm", "f w b", "y", alpha=0.5, beta=2.0)],
        {"w": drawn(432, 5), "b": drawn(5)},
    ),
    "dense behind a transpose": net(
        [
            node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
            node("Flatten", "t", "f"),
            node("Gemm", "f w b", "y"),
        ],
        {"w": drawn(432, 5), "b": drawn(5)},
    ),
    "scale": net(
        [node("Mul", "x g", "s"), node("Add", "s b", "y")],
        {"g": drawn(6, 1, 1), "b": drawn(6, 1, 1)},
    ),
    "shift": one("Add", {"b": drawn(6, 1, 1)}),
    "number": net(
        [node("Mul", "x a", "s"), node("Sub", "s b", "y")],
        {"a": np.float32(3), "b": np.float32(2)},
    ),
    "number minus": net([node("Sub", "a x", "y")], {"a": np.float32(3)}),
    "quotient by a number": one("Div", {"b": np.float32(4)}),
    "square": one("Pow", {"b": np.float32(2)}),
    "sum": net(
        [node("Conv", "x w b", "c", pads=PAD), node("Add", "c x", "y")],
        {"w": drawn(6, 6, 3, 3), "b": drawn(6)},
    ),
    "difference": net([node("Tanh", "x", "t"), node("Sub", "x t", "y")]),
    "product": net([node("Tanh", "x", "t"), node("Mul", "x t", "y")]),
    "largest": net([node("Tanh", "x", "t"), node("Max", "x t", "y")]),
    "smallest": net([node("Tanh", "x", "t"), node("Min", "x t", "y")]),
    "gates": net([node("GlobalAveragePool", "x", "p"), node("Sigmoid", "p", "s"), node("Mul", "x s", "y")]),
    "joined": net([node("Relu", "x", "r"), node("Concat", "x r", "y", axis=1)]),
    "split": net(
        [node("Split", "x k", "a b", axis=1), node("Relu", "a", "r"), node("Concat", "b r", "y", axis=1)],
        {"k": ints(2, 4)},
    ),
    "part": one("Slice", {"s": ints(1, 2), "e": ints(8, 6), "axes": ints(2, 3)}),
    "reshaped": one("Reshape", {"s": ints(0, 3, -1)}),
    "padded": one("Pad", {"p": ints(0, 0, 1, 2, 0, 0, 0, 1)}),
    "padded before a convolution": net(
        [node("Pad", "x p", "z"), node("Conv", "z w b", "y", strides=[2, 2])],
        {**WB, "p": ints(0, 0, 0, 0, 0, 0, 1, 1)},
    ),
    "padded before a maximum": net(
        [
            node("Relu", "x", "r"),
            node("Pad", "r p", "z"),
            node("MaxPool", "z", "y", kernel_shape=[3, 3], strides=[2, 2]),
        ],
        {"p": ints(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    "repeated": net(
        [node("Resize", "x - s", "y", mode="nearest")], {"s": np.array([1, 1, 2, 3], np.float32)}
    ),
    "an output that is read on": model(
        [node("Relu", "x", "y"), node("MaxPool", "y", "z", kernel_shape=[2, 2])],
        {"x": ["N", *SIZES[1:]]},
        ["y", "z"],
    ),
    "shared": net(
        [
            node("Conv", "x w", "c", pads=PAD),
            node("Relu", "c", "r"),
            node("Conv", "r w", "y", pads=PAD),
        ],
        {"w": drawn(6, 6, 3, 3)},
    ),
}
"""By what they are about."""


def expected(made: onnx.ModelProto) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return an input of a net and what ONNX Runtime makes of it."""
    x = np.random.default_rng(7).normal(size=SIZES).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return x, session.run(None, {"x": x})


def close(found: Iterable[np.ndarray], expected: Iterable[np.ndarray]) -> None:
    """Hold outputs against others, to 2e-5 of their rms."""
    for array, wanted in zip(found, expected, strict=True):
        scale = float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64))))
        np.testing.assert_allclose(array, wanted, atol=2e-5 * scale, rtol=0)

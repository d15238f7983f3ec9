"""Two large residual nets with the same weights, cut as Caffe cuts and as TensorFlow cuts.

With 360 blocks the first has 5,786 nodes, the second, of which five blocks are removed, 7,850.

Every convolution is followed by a normalisation with the true statistics of its output (on a batch of
noise), and every block adds little to what goes around it, so that values keep their scale at any depth.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.onnx_writer import OnnxWriter

CHANNELS = (8, 16, 32, 64)
"""Channels of each stage; each stage but the first halves height and width."""

CLASSES = 10
SIZE = 32
EPS = 1e-5
TO_NCHW, TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution and its normalisation, ``(conv + bias - mean) / sqrt(variance + EPS) * gamma + beta``.

    Weights are in the order OIHW; everything else has one entry per channel.
    """

    weight: np.ndarray
    bias: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray
    stride: int = 1

    @property
    def pad(self) -> int:
        """Padding on each side, in pixels."""
        return self.weight.shape[2] // 2

    @property
    def scale(self) -> np.ndarray:
        """Factor of the normalisation, gamma included."""
        return (self.gamma / np.sqrt(self.variance + EPS)).astype(np.float32)

    @property
    def shift(self) -> np.ndarray:
        """What the normalisation adds after the factor."""
        return (self.beta - self.mean * self.scale).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Block:
    """Three convolutions, and one on the way around where channels or sizes change."""

    stage: int
    index: int
    convs: tuple[Conv, Conv, Conv]
    projection: Conv | None


@dataclass(frozen=True, slots=True)
class Net:
    """The weights of a net, whatever its cut; those of the dense layer as (inputs, outputs)."""

    stem: Conv
    blocks: tuple[Block, ...]
    dense: np.ndarray
    dense_bias: np.ndarray


def convolve(x_NCHW: np.ndarray, weight_OIHW: np.ndarray, *, stride: int, pad: int) -> np.ndarray:
    """Return the cross-correlation of images with filters, without bias."""
    size = weight_OIHW.shape[2]
    padded = np.pad(x_NCHW, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], weight_OIHW, optimize=True)


class _Drawing:
    """Draws the convolutions of a net in order, running a batch of noise through them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def normal(self, *shape: int, spread: float = 1.0, around: float = 0.0) -> np.ndarray:
        return (around + spread * self.random.standard_normal(shape)).astype(np.float32)

    def conv(
        self, x: np.ndarray, channels: int, *, size: int, stride: int = 1, gain: float = 1.0
    ) -> tuple[Conv, np.ndarray]:
        fan_in = x.shape[1] * size * size
        weight = self.normal(channels, x.shape[1], size, size, spread=(2 / fan_in) ** 0.5)
        bias = self.normal(channels, spread=0.1)
        y = convolve(x, weight, stride=stride, pad=size // 2) + bias[:, None, None]
        made = Conv(
            weight,
            bias,
            mean=y.mean(axis=(0, 2, 3)).astype(np.float32),
            variance=y.var(axis=(0, 2, 3)).astype(np.float32),
            gamma=gain * self.normal(channels, spread=0.1, around=1.0),
            beta=self.normal(channels, spread=0.1 * gain),
            stride=stride,
        )
        scale, shift = made.gamma / np.sqrt(made.variance + EPS), made.beta
        return made, (y - made.mean[:, None, None]) * scale[:, None, None] + shift[:, None, None]


def draw_net(num_blocks: int = 360, *, seed: int = 0) -> Net:
    """Return a net with drawn weights.

    Args:
        num_blocks: Residual blocks, >= 4, spread evenly over the stages.
        seed: Seeds all weights.
    """
    draw = _Drawing(seed)
    x = draw.normal(32, 3, SIZE, SIZE)
    stem, x = draw.conv(x, CHANNELS[0], size=3)
    x = np.maximum(x, 0)
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    blocks: list[Block] = []
    for stage, channels in enumerate(CHANNELS):
        count = num_blocks // len(CHANNELS) + (stage < num_blocks % len(CHANNELS))
        for index in range(count):
            stride = 2 if stage and not index else 1
            first, y = draw.conv(x, channels, size=1, stride=stride)
            second, y = draw.conv(np.maximum(y, 0), channels, size=3)
            third, y = draw.conv(np.maximum(y, 0), channels, size=1, gain=0.2)
            projection = None
            if not index:
                projection, x = draw.conv(x, channels, size=1, stride=stride)
            x = np.maximum(x + y, 0)
            blocks.append(Block(stage, index, (first, second, third), projection))
    dense = draw.normal(CHANNELS[-1], CLASSES, spread=CHANNELS[-1] ** -0.5)
    return Net(stem, tuple(blocks), dense, draw.normal(CLASSES, spread=0.1))


def removable(net: Net, count: int, *, seed: int = 0) -> frozenset[int]:
    """Return the positions of ``count`` blocks that can be left out: those without a projection."""
    free = [i for i, block in enumerate(net.blocks) if block.projection is None]
    return frozenset(np.random.default_rng(seed).choice(free, count, replace=False).tolist())


def _model(write: OnnxWriter, producer: str, data: str, shape: Sequence[int], result: str) -> onnx.ModelProto:
    ends = {data: shape}, {result: [shape[0], CLASSES]}
    return write.model(producer, *ends, opset=13, producer_name=producer, ir_version=8)


def caffe_model(net: Net, *, removed: Collection[int] = ()) -> onnx.ModelProto:
    """Return the net in NCHW: Convolution with bias, BatchNorm without, Scale as a product and a sum."""
    write = OnnxWriter()

    def conv(x: str, part: Conv, name: str) -> str:
        column = (1, -1, 1, 1)
        inputs = [x, write.array(f"{name}/0", part.weight), write.array(f"{name}/1", part.bias)]
        y = write.add(
            "Conv", inputs, name, kernel_shape=part.weight.shape[2:], pads=[part.pad] * 4,
            strides=[part.stride] * 2,
        )  # fmt: skip
        ones = write.array(f"bn_{name}/ones", np.ones_like(part.mean))
        zeros = write.array(f"bn_{name}/zeros", np.zeros_like(part.mean))
        statistics = [write.array(f"bn_{name}/0", part.mean), write.array(f"bn_{name}/1", part.variance)]
        y = write.add("BatchNormalization", [y, ones, zeros, *statistics], f"bn_{name}", epsilon=EPS)
        gamma = write.array(f"scale_{name}/0", part.gamma.reshape(column))
        beta = write.array(f"scale_{name}/1", part.beta.reshape(column))
        return write.add("Add", [write.add("Mul", [y, gamma], f"scale_{name}/mul"), beta], f"scale_{name}")

    x = write.add("Relu", [conv("data", net.stem, "conv1")], "conv1_relu")
    x = write.add("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    for position, block in enumerate(net.blocks):
        if position in removed:
            continue
        name = f"res{block.stage + 2}_{block.index}"
        around = conv(x, block.projection, f"{name}_branch1") if block.projection else x
        for letter, part in zip("abc", block.convs, strict=True):
            x = conv(x, part, f"{name}_branch2{letter}")
            if letter != "c":
                x = write.add("Relu", [x], f"{name}_branch2{letter}_relu")
        x = write.add("Relu", [write.add("Add", [around, x], name)], f"{name}_relu")
    x = write.add("Flatten", [write.add("GlobalAveragePool", [x], "pool5")], "flatten")
    weight = write.array("fc/0", np.ascontiguousarray(net.dense.T))
    x = write.add("Gemm", [x, weight, write.array("fc/1", net.dense_bias)], "fc", transB=1)
    x = write.add("Softmax", [x], "prob", axis=1)
    return _model(write, "caffe", "data", (1, 3, SIZE, SIZE), x)


def tensorflow_model(net: Net, *, removed: Collection[int] = ()) -> onnx.ModelProto:
    """Return the net in NHWC: Transpose around Conv, BiasAdd apart, the normalisation folded to two."""
    write = OnnxWriter()

    def conv(x: str, part: Conv, name: str, *, padded: bool = False) -> str:
        x = write.add("Transpose", [x], f"{name}/to_nchw", perm=TO_NCHW)
        weight = write.array(f"{name}/kernel", part.weight)
        pads = [0 if padded else part.pad] * 4
        x = write.add("Conv", [x, weight], f"{name}/Conv2D", pads=pads, strides=[part.stride] * 2)
        x = write.add("Transpose", [x], f"{name}/to_nhwc", perm=TO_NHWC)
        x = write.add("Add", [x, write.array(f"{name}/bias", part.bias)], f"{name}/BiasAdd")
        x = write.add("Mul", [x, write.array(f"{name}/bn/scale", part.scale)], f"{name}/bn/mul")
        return write.add("Add", [x, write.array(f"{name}/bn/shift", part.shift)], f"{name}/bn/add")

    pads = write.array("pad/amount", np.array([0, 1, 1, 0, 0, 1, 1, 0], np.int64))
    x = write.add("Pad", ["input", pads], "pad")
    x = write.add("Relu", [conv(x, net.stem, "stem", padded=True)], "stem/relu")
    x = write.add("Transpose", [x], "pool/to_nchw", perm=TO_NCHW)
    x = write.add("MaxPool", [x], "pool/MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    x = write.add("Transpose", [x], "pool/to_nhwc", perm=TO_NHWC)
    for position, block in enumerate(net.blocks):
        if position in removed:
            continue
        name = f"stage{block.stage + 1}/unit{position}"
        around = conv(x, block.projection, f"{name}/shortcut") if block.projection else x
        for number, part in enumerate(block.convs, 1):
            x = conv(x, part, f"{name}/conv{number}")
            if number < len(block.convs):
                x = write.add("Relu", [x], f"{name}/relu{number}")
        x = write.add("Relu", [write.add("Add", [around, x], f"{name}/add")], f"{name}/out")
    x = write.add("ReduceMean", [x], "mean", axes=[1, 2], keepdims=1)
    x = write.add("Squeeze", [x, write.array("squeeze/axes", np.array([1, 2], np.int64))], "squeeze")
    x = write.add("MatMul", [x, write.array("dense/kernel", net.dense)], "dense/MatMul")
    x = write.add("Add", [x, write.array("dense/bias", net.dense_bias)], "dense/BiasAdd")
    x = write.add("Softmax", [x], "probabilities", axis=-1)
    return _model(write, "tensorflow", "input", (1, SIZE, SIZE, 3), x)


def pair_names(blocks: int, removed: int) -> tuple[str, str]:
    """Return the names of the two files of a pair."""
    return f"caffe-{blocks}.onnx", f"tensorflow-{blocks}-without-{removed}.onnx"


def write_pair(folder: Path, *, blocks: int, removed: int, seed: int = 0) -> tuple[Path, Path]:
    """Write the pair, the second with some blocks removed, and return its files."""
    folder.mkdir(parents=True, exist_ok=True)
    net = draw_net(blocks, seed=seed)
    first, second = (folder / name for name in pair_names(blocks, removed))
    onnx.save(caffe_model(net), first)
    onnx.save(tensorflow_model(net, removed=removable(net, removed, seed=seed)), second)
    return first, second

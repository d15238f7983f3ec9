"""The nets of the benchmark, after their papers and the reference code, with drawn weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.comparing.writer import NetWriter

Built = tuple[dict[str, tuple[Any, ...]], list[str]]
"""Inputs with their sizes, and outputs."""


def vgg19(net: NetWriter) -> Built:
    """VGG-19 (Simonyan and Zisserman 2014), without normalisations."""
    x, before = "data", 3
    for width, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            x, before = net.relu(net.conv(x, (before, width), 3, norm=False)), width
        x = net.pool(x, "Max", 2, 2)
    x = net.relu(net.classify(x, 512 * 7 * 7, 4096))
    x = net.relu(net.classify(x, 4096, 4096))
    return {"data": ("N", 3, 224, 224)}, [net.op("Softmax", net.classify(x, 4096, 1000), axis=1)]


def yolov3(net: NetWriter) -> Built:
    """YOLOv3 at 416 x 416 (Redmon and Farhadi 2018, yolov3.cfg)."""

    def conv(x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, gain: float = 1.0) -> str:
        return net.op(
            "LeakyRelu", net.conv(x, (inputs, outputs), kernel, stride=stride, gain=gain), alpha=0.1
        )

    x, before, routes = conv("data", 3, 32, 3), 32, []
    for width, depth in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x, before = conv(x, before, width, 3, 2), width
        for _ in range(depth):
            inner = conv(x, width, width // 2, 1)
            x = net.op("Add", x, conv(inner, width // 2, width, 3, gain=0.4))
        routes.append(x)
    outputs, joined = [], 1024
    for width, route in ((512, None), (256, routes[3]), (128, routes[2])):
        if route is not None:
            up = conv(x, 2 * width, width, 1)
            up = net.op("Resize", up, "", net.store([1, 1, 2, 2]), mode="nearest")
            x, joined = net.concat([up, route]), width + 2 * width
        for inputs in (joined, 2 * width):
            x = conv(conv(x, inputs, width, 1), width, 2 * width, 3)
        x = conv(x, 2 * width, width, 1)
        outputs.append(net.conv(conv(x, width, 2 * width, 3), (2 * width, 255), norm=False))
    return {"data": ("N", 3, 416, 416)}, outputs


def pspnet(net: NetWriter) -> Built:
    """PSPNet with ResNet-101 at 473 x 473 (Zhao et al. 2017, pspnet101_VOC2012_473.prototxt)."""
    x = net.relu(net.conv("data", (3, 64), 3, stride=2))
    x = net.relu(net.conv(net.relu(net.conv(x, (64, 64), 3)), (64, 128), 3))
    x, before = net.pool(x, "Max", 3, 2, 1), 128
    for width, depth, stride, dilation in ((64, 3, 1, 1), (128, 4, 2, 1), (256, 23, 1, 2), (512, 3, 1, 4)):
        for index in range(depth):
            step = stride if index == 0 else 1
            y = net.relu(net.conv(x, (before, width), stride=step))
            y = net.relu(net.conv(y, (width, width), 3, dilation=dilation))
            y = net.conv(y, (width, 4 * width), gain=0.4)
            x = x if index else net.conv(x, (before, 4 * width), stride=step)
            x, before = net.relu(net.op("Add", x, y)), 4 * width
    pyramid = [x]
    for size in (60, 30, 20, 10):
        y = net.relu(net.conv(net.pool(x, "Average", size, size), (2048, 512)))
        pyramid.append(net.op("Resize", y, "", net.store([1, 1, size, size]), mode="linear"))
    x = net.relu(net.conv(net.concat(pyramid), (4096, 512), 3))
    x = net.conv(x, (512, 21), norm=False)
    x = net.op("Resize", x, "", net.store([1, 1, 8, 8]), mode="linear")
    return {"data": ("N", 3, 473, 473)}, [x]


def inception_v4(net: NetWriter) -> Built:
    """Inception-v4 (Szegedy et al. 2016, figures 3 to 9)."""

    def conv(x: str, inputs: int, outputs: int, kernel: Any = 1, stride: int = 1, *, pad: bool = True) -> str:
        return net.relu(net.conv(x, (inputs, outputs), kernel, stride=stride, pad=pad))

    def chain(x: str, inputs: int, *steps: tuple[int, Any]) -> str:
        for outputs, kernel in steps:
            x, inputs = conv(x, inputs, outputs, kernel), outputs
        return x

    x = conv(conv(conv("data", 3, 32, 3, 2, pad=False), 32, 32, 3, pad=False), 32, 64, 3)
    x = net.concat([net.pool(x, "Max", 3, 2), conv(x, 64, 96, 3, 2, pad=False)])
    left = conv(conv(x, 160, 64), 64, 96, 3, pad=False)
    right = conv(chain(x, 160, (64, 1), (64, (7, 1)), (64, (1, 7))), 64, 96, 3, pad=False)
    x = net.concat([left, right])
    x = net.concat([conv(x, 192, 192, 3, 2, pad=False), net.pool(x, "Max", 3, 2)])
    for _ in range(4):
        average = conv(net.pool(x, "Average", 3, 1, 1), 384, 96)
        parts = [chain(x, 384, (64, 1), (96, 3)), chain(x, 384, (64, 1), (96, 3), (96, 3))]
        x = net.concat([average, conv(x, 384, 96), *parts])
    parts = [conv(x, 384, 384, 3, 2, pad=False), net.pool(x, "Max", 3, 2)]
    x = net.concat([*parts, conv(chain(x, 384, (192, 1), (224, 3)), 224, 256, 3, 2, pad=False)])
    for _ in range(7):
        average = conv(net.pool(x, "Average", 3, 1, 1), 1024, 128)
        short = chain(x, 1024, (192, 1), (224, (1, 7)), (256, (7, 1)))
        long = chain(x, 1024, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1)))
        x = net.concat([average, conv(x, 1024, 384), short, long])
    left = conv(conv(x, 1024, 192), 192, 192, 3, 2, pad=False)
    right = conv(chain(x, 1024, (256, 1), (256, (1, 7)), (320, (7, 1))), 320, 320, 3, 2, pad=False)
    x = net.concat([net.pool(x, "Max", 3, 2), left, right])
    for _ in range(3):
        average = conv(net.pool(x, "Average", 3, 1, 1), 1536, 256)
        short, long = conv(x, 1536, 384), chain(x, 1536, (384, 1), (448, (1, 3)), (512, (3, 1)))
        ends = [conv(short, 384, 256, k) for k in ((1, 3), (3, 1))]
        ends += [conv(long, 512, 256, k) for k in ((1, 3), (3, 1))]
        x = net.concat([average, conv(x, 1536, 256), *ends])
    x = net.classify(net.op("GlobalAveragePool", x), 1536, 1000)
    return {"data": ("N", 3, 299, 299)}, [net.op("Softmax", x, axis=1)]


def dpn92(net: NetWriter) -> Built:
    """DPN-92 (Chen et al. 2017, table 1): a residual and a densely connected path in one."""

    def unit(x: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        """Normalise, rectify, convolve: the filters cannot be folded, so a port scales."""
        gamma, beta = net.draw(inputs, mean=1.0), net.draw(inputs)
        mean, variance = net.draw(inputs), net.draw(inputs, mean=1.0) ** 2 + 0.1
        if net.is_port:
            scale = gamma / (variance + 1e-5) ** 0.5
            shape = (1, inputs, 1, 1)
            x = net.op("Mul", x, net.store(scale.reshape(shape)))
            x = net.op("Add", x, net.store((beta - mean * scale).reshape(shape)))
        else:
            x = net.op("BatchNormalization", x, *map(net.store, (gamma, beta, mean, variance)), epsilon=1e-5)
        filters = (inputs, outputs)
        gain = 0.5 if kernel == 1 and outputs > inputs else 1.0
        return net.conv(net.relu(x), filters, kernel, stride=stride, group=group, gain=gain)

    x = net.pool(net.relu(net.conv("data", (3, 64), 7, stride=2)), "Max", 3, 2, 1)
    residual, dense, before = "", [], 64
    for level, (depth, growth) in enumerate(((3, 16), (4, 32), (20, 24), (3, 128))):
        width, inner = 256 << level, 96 << level
        for index in range(depth):
            stride = 2 if index == 0 and level else 1
            if index == 0:
                joined = unit(x, before, width + 2 * growth, stride=stride)
                residual, dense = (
                    net.cut(joined, 1, 0, width),
                    [net.cut(joined, 1, width, width + 2 * growth)],
                )
            y = unit(unit(x, before, inner), inner, inner, 3, stride, 32)
            y = unit(y, inner, width + growth)
            residual = net.op("Add", residual, net.cut(y, 1, 0, width))
            dense.append(net.cut(y, 1, width, width + growth))
            x, before = net.concat([residual, *dense]), width + growth * (len(dense) + 1)
    x = net.classify(net.op("GlobalAveragePool", net.relu(x)), before, 1000)
    return {"data": ("N", 3, 224, 224)}, [x]


def _attention(net: NetWriter, x: str, width: int, heads: int, length: int, bias: str = "") -> str:
    """Add attention over windows or sequences of a length, all in the first axis."""
    parts = []
    for _ in range(3):
        part = net.reshape(net.dense(x, width, width), -1, length, heads, width // heads)
        parts.append(part)
    query, value = (net.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (parts[0], parts[2]))
    key = net.op("Transpose", parts[1], perm=[0, 2, 3, 1])
    scores = net.op("Div", net.op("MatMul", query, key), net.store((width // heads) ** 0.5))
    scores = net.op("Softmax", net.op("Add", scores, bias) if bias else scores, axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", scores, value), perm=[0, 2, 1, 3])
    return net.dense(net.reshape(mixed, -1, length, width), width, width)


def _mlp(net: NetWriter, x: str, width: int) -> str:
    return net.dense(net.gelu(net.dense(x, width, 4 * width)), 4 * width, width)


def swin_t(net: NetWriter) -> Built:
    """Swin-T at 224 x 224 (Liu et al. 2021), without the masks of the shifted windows."""
    x = net.conv("data", (3, 96), 4, stride=4, pad=False, norm=False)
    x, size, width = net.op("Transpose", x, perm=[0, 2, 3, 1]), 56, 96
    for level, depth in enumerate((2, 2, 6, 2)):
        if level:
            corners = [
                net.op("Slice", x, *(net.store(n, "int64") for n in ([i, j], [size, size], [1, 2], [2, 2])))
                for j in (0, 1)
                for i in (0, 1)
            ]
            x = net.layer_norm(net.concat(corners, axis=3), 4 * width)
            x, size, width = net.dense(x, 4 * width, 2 * width), size // 2, 2 * width
        for index in range(depth):
            x = _swin_block(net, x, size, width, heads=3 << level, shift=3 if index % 2 and size > 7 else 0)
    x = net.op("ReduceMean", net.layer_norm(x, width), axes=[1, 2], keepdims=0)
    return {"data": ("N", 3, 224, 224)}, [net.dense(x, width, 1000)]


def _swin_block(net: NetWriter, x: str, size: int, width: int, *, heads: int, shift: int) -> str:
    def rolled(y: str, by: int) -> str:
        for axis in (1, 2) if by % size else ():
            y = net.concat([net.cut(y, axis, by % size, size), net.cut(y, axis, 0, by % size)], axis=axis)
        return y

    windows = size // 7
    y = rolled(net.layer_norm(x, width), shift)
    y = net.op("Transpose", net.reshape(y, -1, windows, 7, windows, 7, width), perm=[0, 1, 3, 2, 4, 5])
    bias = net.store(net.draw(heads, 49, 49))
    y = _attention(net, net.reshape(y, -1, 49, width), width, heads, 49, bias)
    y = net.op("Transpose", net.reshape(y, -1, windows, windows, 7, 7, width), perm=[0, 1, 3, 2, 4, 5])
    x = net.op("Add", x, rolled(net.reshape(y, -1, size, size, width), -shift))
    return net.op("Add", x, _mlp(net, net.layer_norm(x, width), width))


def bert_base(net: NetWriter) -> Built:
    """BERT-base on 128 tokens (Devlin et al. 2018), without a mask."""
    words = net.op("Gather", net.store(net.draw(30522, 768, scale=1.0)), "ids")
    kinds = net.op("Gather", net.store(net.draw(2, 768, scale=1.0)), "kinds")
    x = net.op("Add", net.op("Add", words, kinds), net.store(net.draw(1, 128, 768, scale=1.0)))
    x = net.layer_norm(x, 768)
    for _ in range(12):
        x = net.layer_norm(net.op("Add", x, _attention(net, x, 768, 12, 128)), 768)
        x = net.layer_norm(net.op("Add", x, _mlp(net, x, 768)), 768)
    first = net.op("Gather", x, net.store(0, "int64"), axis=1)
    return {"ids": ("N", 128), "kinds": ("N", 128)}, [x, net.op("Tanh", net.dense(first, 768, 768))]


NETS: dict[str, Callable[[NetWriter], Built]] = {
    "VGG-19": vgg19,
    "YOLOv3": yolov3,
    "PSPNet": pspnet,
    "Inception-v4": inception_v4,
    "DPN-92": dpn92,
    "Swin-T": swin_t,
    "BERT-base": bert_base,
}
"""The nets by name."""

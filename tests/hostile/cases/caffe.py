"""Bad files of Caffe: texts and weights."""

from __future__ import annotations

import numpy as np

from netweave.errors import NetweaveError, ReadError, ShapeError, WeightError
from tests.hostile.cases.case import ANY, add, file, weights
from tests.hostile.cases.foreign import PICKLE
from tests.hostile.cases.wire import varint, wire_bytes
from tests.oracles.caffemodel import caffemodel


def _layer(text: str, sizes: str = "dim: 1 dim: 3 dim: 8 dim: 8") -> str:
    return f'input: "data" input_shape {{ {sizes} }} layer {{ name: "l" bottom: "data" top: "l" {text} }}'


def _conv(text: str) -> str:
    return _layer(f'type: "Convolution" convolution_param {{ {text} }}')


_CAFFE = {
    "2^31 as a size": (_layer('type: "ReLU"', "dim: 1 dim: 2147483648"), ShapeError, "2,147,483,647"),
    "sizes whose product is too large": (
        _layer('type: "ReLU"', "dim: 1 dim: 2000000 dim: 2000000"), ShapeError, "2,147,483,647",
    ),
    "a size below zero": (_layer('type: "ReLU"', "dim: 1 dim: -3"), NetweaveError, ANY),
    "2^31 - 1 outputs": (_conv("num_output: 2147483647 kernel_size: 3"), NetweaveError, ANY),
    "a huge window": (_conv("num_output: 1 kernel_size: 2147483647"), ShapeError, ANY),
    "a huge padding": (_conv("num_output: 1 kernel_size: 1 pad: 2147483647"), ShapeError, ANY),
    "a step of 0": (_conv("num_output: 1 kernel_size: 1 stride: 0"), NetweaveError, "stride"),
    "no groups": (_conv("num_output: 1 kernel_size: 1 group: 0"), NetweaveError, "group"),
    "a window of 0": (_conv("num_output: 1 kernel_size: 0"), NetweaveError, "kernel"),
    "a number beyond its type": (_conv("num_output: 4294967296"), ReadError, "num_output"),
    "a number of 400 digits": (_conv("num_output: 1" + "0" * 400), ReadError, "num_output"),
    "a text for a number": (_conv('num_output: "many"'), ReadError, "num_output"),
    "a block for a number": (_conv("num_output { }"), ReadError, "num_output"),
    "a number for a text": (_layer("type: 7"), ReadError, "type"),
    "not a number": (_layer('type: "ReLU" relu_param { negative_slope: nope }'), ReadError, "negative_slope"),
    "an unknown field": (_layer('type: "ReLU" colour: 3'), ReadError, "colour"),
    "nested too deep": ("layer { " * 100_000, ReadError, ANY),
    "an endless text": (f'name: "{"x" * 5_000_000}', ReadError, ANY),
    "not UTF-8": (b'name: "\xff\xfe"\nlayer { name: "\x80" }', NetweaveError, ANY),
    "a NUL inside": (_layer('type: "ReLU\0"'), NetweaveError, ANY),
    "a layer that reads itself": (
        'layer { name: "a" type: "ReLU" bottom: "a" top: "a" }', ReadError, "reads the blob 'a'",
    ),
    "layers in a cycle": (
        'layer { name: "a" type: "ReLU" bottom: "b" top: "a" } '
        'layer { name: "b" type: "ReLU" bottom: "a" top: "b" }',
        ReadError, "reads the blob 'b'",
    ),
    "a million layers of nothing": ("layer { }" * 200_000, NetweaveError, ANY),
    "no layers": ('name: "net"', ReadError, "has no layers"),
    "a mean file elsewhere": (
        'layer { name: "d" type: "Data" top: "d" transform_param { mean_file: "../../../etc/hostname" } }',
        NetweaveError, ANY,
    ),
    "a file of gains elsewhere": (
        _layer('type: "InfogainLoss" bottom: "data" infogain_loss_param { source: "/etc/hostname" }'),
        NetweaveError, "there is no '/etc/hostname'|beside",
    ),
}  # fmt: skip
for _name, (_content, _error, _message) in _CAFFE.items():
    add(f"prototxt: {_name}", file("net.prototxt", _content), _error, _message)


def _blob(sizes: tuple[int, ...], data: bytes = bytes(4)) -> bytes:
    packed = b"".join(varint(size % 2**64) for size in sizes)
    blob = wire_bytes(7, wire_bytes(1, packed)) + wire_bytes(5, data)
    return wire_bytes(100, wire_bytes(1, b"conv1") + wire_bytes(2, b"Convolution") + wire_bytes(7, blob))


_CAFFEMODEL = {
    "an array of declared size only": (_blob((4, 3, 2**31 - 1, 3)), NetweaveError, ANY),
    "an array with a size below zero": (_blob((4, -3, 3, 3)), NetweaveError, ANY),
    "sizes hidden behind a zero": (_blob((0, 2**62, 2**62), b""), NetweaveError, ANY),
    "a length beyond the file": (varint(100 << 3 | 2) + varint(2**40) + b"abc", ReadError, ANY),
    "a length without end": (b"\xa2\x06" + b"\xff" * 20, ReadError, ANY),
    "groups nested too deep": (b"\x0b" * 100_000, ReadError, ANY),
    "layers of another net": (
        caffemodel([("other", "convolution", [np.zeros((4, 3, 3, 3), np.float32)])], generation=2),
        WeightError, ANY,
    ),
    "an array of another shape": (
        caffemodel([("conv1", "convolution", [np.zeros((4, 3, 5, 5), np.float32)])], generation=2),
        WeightError, "conv1",
    ),
    "a pickle": (PICKLE, ReadError, ANY),
}  # fmt: skip
for _name, (_content, _error, _message) in _CAFFEMODEL.items():
    add(f"caffemodel: {_name}", weights("caffemodel", _content), _error, _message)

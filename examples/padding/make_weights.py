"""Draws the weights of the two nets and writes them beside their files, as Caffe and as MXNet store them.

    python make_weights.py [FOLDER]

Both nets get the same numbers. The two writers below are all that the formats need for this: the wire
format of protocol buffers for Caffe, MXNet's NDArray list (version 2) for MXNet. Nothing of Netweave is
used, so that the files are not made by what reads them.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np

SEED = 7
STATISTICS_SCALE = 999.0
"""Caffe stores its running sums with the factor that they are to be divided by."""


def draw() -> dict[str, np.ndarray]:
    """Return the arrays of the net by a name of their own."""
    random = np.random.RandomState(SEED)  # not a Generator: these numbers NumPy keeps for ever

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    return {
        "conv1.weight": normal(16, 3, 3, 3) * 0.3,
        "bn1.mean": normal(16) * 0.2,
        "bn1.variance": 1 + 0.5 * np.abs(normal(16)),
        "scale1.gamma": 1 + normal(16) * 0.1,
        "scale1.beta": normal(16) * 0.1,
        "conv2.weight": normal(32, 16, 3, 3) * 0.12,
        "conv2.bias": normal(32) * 0.1,
        "fc.weight": normal(10, 32 * 8 * 8) * 0.05,
        "fc.bias": normal(10) * 0.1,
    }


def caffe_layers(drawn: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Return the arrays by Caffe layer."""
    scale = np.float32(STATISTICS_SCALE)
    return {
        "conv1": [drawn["conv1.weight"]],
        "bn1": [drawn["bn1.mean"] * scale, drawn["bn1.variance"] * scale, np.array([scale])],
        "scale1": [drawn["scale1.gamma"], drawn["scale1.beta"]],
        "conv2": [drawn["conv2.weight"], drawn["conv2.bias"]],
        "fc": [drawn["fc.weight"], drawn["fc.bias"]],
    }


def mxnet_arrays(drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays by MXNet name: ``arg:`` what is trained, ``aux:`` what is counted."""
    return {
        "arg:stem_weight": drawn["conv1.weight"],
        "arg:norm_gamma": drawn["scale1.gamma"],
        "arg:norm_beta": drawn["scale1.beta"],
        "aux:norm_moving_mean": drawn["bn1.mean"],
        "aux:norm_moving_var": drawn["bn1.variance"],
        "arg:body_weight": drawn["conv2.weight"],
        "arg:body_bias": drawn["conv2.bias"],
        "arg:head_weight": drawn["fc.weight"],
        "arg:head_bias": drawn["fc.bias"],
    }


# Caffe: NetParameter { name = 1; layer = 100 { name = 1; blobs = 7 { data = 5; shape = 7 { dim = 1 } } } }


def varint(number: int) -> bytes:
    """Return a whole number as protocol buffers write it: seven bits a byte, the lowest first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def field(number: int, content: bytes) -> bytes:
    """Return a field of bytes: text, a message, or packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(array: np.ndarray) -> bytes:
    """Return a BlobProto."""
    shape = field(1, b"".join(varint(size) for size in array.shape))
    return field(5, array.astype("<f4").tobytes()) + field(7, shape)


def caffemodel(name: str, layers: dict[str, list[np.ndarray]]) -> bytes:
    """Return a NetParameter with the arrays of each layer."""
    messages = [
        field(1, layer.encode()) + b"".join(field(7, blob(array)) for array in arrays)
        for layer, arrays in layers.items()
    ]
    return field(1, name.encode()) + b"".join(field(100, message) for message in messages)


# MXNet: list header, arrays, names; everything little-endian


def ndarray(array: np.ndarray) -> bytes:
    """Return one dense float32 array on the CPU, as of version 2."""
    magic, dense, cpu, float32 = 0xF993FAC9, 0, 1, 0
    shape = struct.pack(f"<I{array.ndim}q", array.ndim, *array.shape)
    return (
        struct.pack("<Ii", magic, dense)
        + shape
        + struct.pack("<iii", cpu, 0, float32)
        + array.astype("<f4").tobytes()
    )


def params(arrays: dict[str, np.ndarray]) -> bytes:
    """Return a list of arrays with their names."""
    names = [name.encode() for name in arrays]
    return (
        struct.pack("<QQQ", 0x112, 0, len(arrays))
        + b"".join(ndarray(array) for array in arrays.values())
        + struct.pack("<Q", len(names))
        + b"".join(struct.pack("<Q", len(name)) + name for name in names)
    )


def write(folder: Path) -> None:
    """Write ``leaves.caffemodel`` and ``leaves-0000.params``."""
    drawn = draw()
    (folder / "leaves.caffemodel").write_bytes(caffemodel("leaves", caffe_layers(drawn)))
    (folder / "leaves-0000.params").write_bytes(params(mxnet_arrays(drawn)))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

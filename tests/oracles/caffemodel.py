"""A writer of .caffemodel files in all three generations, by hand from the field numbers of caffe.proto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracles import recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

TYPES = {
    "convolution": ("conv", 4, "Convolution"),
    "innerproduct": ("innerproduct", 14, "InnerProduct"),
    "batchnorm": (None, None, "BatchNorm"),
    "scale": (None, None, "Scale"),
    "prelu": (None, None, "PReLU"),
    "deconvolution": (None, 39, "Deconvolution"),
    "normalize": (None, None, "Normalize"),
}
"""What each generation calls the layers that store arrays: V0 by a word, V1 by a number."""


def drawn(weights: dict[str, dict[str, Any]], *, generation: int) -> bytes:
    """Return a file of drawn arrays.

    Args:
        weights: By layer: its ``kind`` and its ``blobs``, each as (sizes, role, key of the draw).
        generation: 0, 1 or 2.
    """
    layers = []
    for name, layer in weights.items():
        arrays = [recipe.weight(key, tuple(shape), role) for shape, role, key in layer["blobs"]]
        layers.append((name, layer["kind"], arrays))
    return caffemodel(layers, generation=generation)


def caffemodel(layers: Sequence[tuple[str, str, Sequence[np.ndarray]]], *, generation: int) -> bytes:
    """Return a file's bytes.

    Args:
        layers: Name, kind (a key of ``TYPES``) and arrays of each layer.
        generation: 0, 1 or 2. The first two store sizes as num, channels, height and width.
    """
    write = (_layer_v0, _layer_v1, _layer_v2)[generation]
    return b"".join(write(name, TYPES[kind][generation], arrays) for name, kind, arrays in layers)


def _layer_v2(name: str, kind: str, arrays: Sequence[np.ndarray]) -> bytes:
    blobs = [_bytes(7, _blob(array)) for array in arrays]
    return _bytes(100, _bytes(1, name.encode()) + _bytes(2, kind.encode()) + b"".join(blobs))


def _layer_v1(name: str, kind: int, arrays: Sequence[np.ndarray]) -> bytes:
    head = _bytes(4, name.encode()) + _number(5, kind)
    return _bytes(2, head + b"".join(_bytes(6, _old_blob(array)) for array in arrays))


def _layer_v0(name: str, kind: str, arrays: Sequence[np.ndarray]) -> bytes:
    head = _bytes(1, name.encode()) + _bytes(2, kind.encode())
    return _bytes(2, _bytes(1, head + b"".join(_bytes(50, _old_blob(array)) for array in arrays)))


def _blob(array: np.ndarray) -> bytes:
    sizes = b"".join(_varint(size) for size in array.shape)
    return _bytes(5, _floats(array)) + _bytes(7, _bytes(1, sizes))


def _old_blob(array: np.ndarray) -> bytes:
    sizes = (1,) * (4 - array.ndim) + array.shape
    return b"".join(_number(i, size) for i, size in enumerate(sizes, start=1)) + _bytes(5, _floats(array))


def _floats(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, dtype="<f4").tobytes()


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])

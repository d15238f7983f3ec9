"""Files of stored arrays: ``.caffemodel`` of every age, ``.caffemodel.h5``, ``.binaryproto``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from netweave.errors import ReadError, SourceError, WeightError
from netweave.files import Source, is_file, read_bytes, read_head
from netweave.files.hdf5 import HDF5_MAGIC, read_hdf5
from netweave.files.protobuf import Message
from netweave.formats.caffe.file_types import HEAD_BYTES, find_kind
from netweave.formats.caffe.schema import caffe_schema, upgrade
from netweave.graph import Graph, graph_of_weights
from netweave.graph.costs import MAX_AXES, num_elements

SUFFIXES = (".caffemodel", ".caffemodel.h5")


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """One array of a file.

    Attributes:
        shape: Sizes as stored.
        legacy: Whether they are the four of the old form, with ones in front.
        load: Gives the values as float32, of sizes ``shape``.
    """

    shape: tuple[int, ...]
    legacy: bool
    load: Callable[[], np.ndarray]

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether the array is one of sizes ``shape``; old ones are compared from the right."""
        if self.legacy and len(shape) <= 4:
            return self.shape == (1,) * (4 - len(shape)) + tuple(shape)
        return self.shape == tuple(shape)


@dataclass(frozen=True, slots=True)
class Weights:
    """The arrays of a file by layer."""

    file: str
    layers: dict[str, dict[int, StoredBlob]]

    def layer(self, name: str) -> dict[int, StoredBlob] | None:
        """Return a layer's arrays by number, or None if the file does not have the layer."""
        return self.layers.get(name)

    def names(self) -> list[str]:
        """Return the layers that have arrays."""
        return [name for name, blobs in self.layers.items() if blobs]


def find_weights(source: Source) -> Path | None:
    """Return the weights that the caller names, or those that lie beside the net under its name."""
    if source.weights is not None:
        return source.weights
    name, dot, _ = source.net.name.partition(".prototxt")
    stem = name if dot else source.net.stem
    for suffix in SUFFIXES:
        path = source.net.with_name(stem + suffix)
        if path.is_file() and path != source.net:
            return path
    return None


def read_weights(path: Path) -> Weights:
    """Read a file of weights, or several with commas between: later ones replace layers of earlier ones.

    Raises:
        ReadError: A file cannot be read or holds no weights.
        WeightError: An array is not whole.
        UsageError: The file is HDF5 and h5py is not installed.
    """
    if "," in str(path) and not is_file(path):
        parts = [read_weights(Path(part)) for part in str(path).split(",")]
        merged = {name: blobs for part in parts for name, blobs in part.layers.items()}
        return Weights(str(path), merged)
    head = read_head(path, HEAD_BYTES)
    place = str(path)
    if head.startswith(HDF5_MAGIC):
        return Weights(place, _read_hdf5(path))
    kind = find_kind(head)
    if kind is not None and kind.message != "NetParameter":
        raise ReadError(
            f"holds a {kind.message}, expected weights: a .caffemodel or .caffemodel.h5", place=place
        )
    if kind is not None and kind.text:
        raise ReadError(
            "is a net in text form, expected weights: a .caffemodel or .caffemodel.h5", place=place
        )
    return net_weights(caffe_schema().decode_file("NetParameter", path, place=place), place=place)


def weights_alone(path: Path) -> Graph | None:
    """Return the arrays of a file as a graph without nodes; None if it holds none."""
    try:
        layers = read_weights(path).layers
    except SourceError:
        return None
    arrays = {f"{name}/{number}": blob for name, blobs in layers.items() for number, blob in blobs.items()}
    if not arrays:
        return None
    values = {key: blob.load().reshape(_plain_shape(blob)) for key, blob in arrays.items()}
    return graph_of_weights(values, format_name="caffe", file=str(path))


def _plain_shape(blob: StoredBlob) -> tuple[int, ...]:
    """Return the sizes of an array, without the ones that the old form puts in front."""
    sizes = list(blob.shape)
    while blob.legacy and len(sizes) > 1 and sizes[0] == 1:
        del sizes[0]
    return tuple(sizes)


def net_weights(net: Message, *, place: str) -> Weights:
    """Return the arrays that a net itself holds; it is upgraded on the way.

    Raises:
        ReadError: The net cannot be upgraded.
        WeightError: An array is not whole.
    """
    upgrade(net, place=place)
    layers: dict[str, dict[int, StoredBlob]] = {}
    for layer in net["layer"]:
        name = layer["name"]
        layers[name] = {
            index: stored_blob(blob, place=f"{place}: layer {name!r}, array {index}")
            for index, blob in enumerate(layer["blobs"])
        }
    if not layers:
        raise ReadError("holds no layers, so it is not a .caffemodel", place=place)
    return Weights(place, layers)


def stored_blob(blob: Message, *, place: str) -> StoredBlob:
    """Return the array of a BlobProto.

    Raises:
        WeightError: It has more or fewer values than its sizes say.
    """
    legacy = any(name in blob for name in ("num", "channels", "height", "width"))
    dims = [blob[name] for name in ("num", "channels", "height", "width")] if legacy else blob["shape"]["dim"]
    shape = tuple(dims)
    values = np.asarray(blob["double_data" if "double_data" in blob else "data"])
    count = num_elements(shape)
    if count is None or count != values.size:
        needed = "more values than an array may have" if count is None else f"{count:,} values"
        raise WeightError(
            f"the sizes {'x'.join(map(str, shape[:MAX_AXES])) or '()'} need {needed}, but the file has "
            f"{values.size:,}; is it complete?",
            place=place,
        )
    return StoredBlob(shape, legacy, lambda: values.astype(np.float32, copy=False).reshape(shape))


def read_blob(path: Path | str) -> np.ndarray:
    """Return the array of a ``.binaryproto``, such as a mean image (1, C, H, W), in BGR order.

    Raises:
        ReadError: The file cannot be read or is no single array.
        WeightError: The array is not whole.
    """
    place = str(path)
    content = read_bytes(Path(path))
    kind = find_kind(content[:HEAD_BYTES])
    if kind is None or kind.message != "BlobProto":
        raise ReadError("is not a single array, expected a .binaryproto such as a mean file", place=place)
    return stored_blob(caffe_schema().decode("BlobProto", content, place=place), place=place).load()


def _read_hdf5(path: Path) -> dict[str, dict[int, StoredBlob]]:
    """Read arrays by layer and number; those that a layer shares with another are only at their owner."""
    layers: dict[str, dict[int, StoredBlob]] = {}
    data = read_hdf5(path, place=str(path)).group("data")
    if data is None:
        raise ReadError("has no group 'data', so it is not a .caffemodel.h5", place=str(path))
    for name, array in data.arrays():
        layer, _, index = name.rpartition("/")
        if index.isdecimal():
            values = array.astype(np.float32)
            layers.setdefault(layer, {})[int(index)] = StoredBlob(values.shape, False, partial(_same, values))
    return layers


def _same(values: np.ndarray) -> np.ndarray:
    return values

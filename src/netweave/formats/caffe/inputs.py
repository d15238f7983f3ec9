"""Sizes of a net's inputs: the tops of Input and data layers, as far as the file says them.

A data layer learns its sizes from its database; what the file leaves open, the caller gives
(``Source.input_shapes``). Rules: ``input_layer.cpp``, ``data_transformer.cpp`` and the data layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.files import file_beside
from netweave.files.unknown import check_input_names
from netweave.formats.caffe.context import LAYERS
from netweave.formats.caffe.python_code import type_of
from netweave.formats.caffe.weights import read_blob
from netweave.formats.lowering import RuleTable
from netweave.formats.lowering.inputs import check_input_size, open_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from netweave.errors import ReadError
    from netweave.files import Source
    from netweave.files.protobuf import Message
    from netweave.formats.caffe.weights import Weights
    from netweave.formats.caffe.wiring import Wired

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class NetInput:
    """An input: its sizes as declared, and whether axis 0 is the batch of the net."""

    shape: Shape
    batch: bool


Declared = tuple[str, "Shape | None", "Wired"]
"""An input's name, its sizes as the file says them, and its layer."""

Sizes = Callable[["Message", "Path"], "Sequence[Shape | None]"]
"""Sizes of a layer's tops from its settings and the folder of its file; None where nothing is known."""

OPEN_SIZES = {("AnnotatedData", 1, 2)}
"""Sizes that differ from batch to batch, as (type, top, axis): how many boxes the images have."""

KEEPING_CHANNELS = frozenset(
    {"BatchNorm", "Bias", "BN", "Dropout", "LRN", "MVN", "Pooling", "Power", "Scale", "Split"}
)
"""Types of layers between the data and the first filters that leave its channels as they are."""

INPUTS: RuleTable[Sizes, Sizes] = RuleTable(lambda rule: rule)
"""The types of layers that bring data into a net, with the rule for the sizes of their tops."""

sizes_of = INPUTS.register


def brings_data(spec: Message) -> bool:
    """Return whether a layer brings data into a net.

    It does if its type is a known data layer, or if it is unknown and has no bottoms.
    """
    type_ = type_of(spec)
    return type_ in INPUTS or (type_ not in LAYERS and bool(spec["top"]) and not spec["bottom"])


def find_inputs(
    layers: Sequence[Wired], source: Source, weights: Weights | None = None
) -> dict[str, NetInput]:
    """Return the inputs of a net by name.

    Args:
        layers: The layers that are part of the net.
        source: Its files and the caller's wishes.
        weights: Its stored arrays; channels that the file leaves open are those that the first filters read.

    Raises:
        ReadError: Sizes are neither in the file nor given; the message says what to give.
        ShapeError: A size is below 1 or an input would be too large.
        UsageError: Sizes are given for something that is no input.
    """
    declared = [
        (name, shape, wired)
        for wired in layers
        if brings_data(wired.spec)
        for name, shape in zip(wired.tops, _of_tops(wired, source.net.parent), strict=True)
    ]
    check_input_names(
        source.input_shapes,
        [name for name, _, _ in declared],
        place=f"{source.net} in phase {source.phase}",
    )
    shapes = [
        source.input_shapes.get(name, _with_channels(name, shape, layers, weights))
        for name, shape, _ in declared
    ]
    missing = [
        (wired, name, shape)
        for (name, _, wired), shape in zip(declared, shapes, strict=True)
        if shape is None or not _is_known(name, shape, wired)
    ]
    if missing:
        raise _missing(missing, source)
    firsts = _first_sizes(declared, shapes)
    is_batch = [bool(shape) and first == firsts[0] for shape, first in zip(shapes, firsts, strict=True)]
    batch = _batch_size(declared, is_batch, firsts[0] if firsts else None, source)
    inputs = {}
    for (name, _, wired), shape, follows in zip(declared, shapes, is_batch, strict=True):
        whole = (batch, *(shape or ())[1:]) if follows else tuple(shape or ())
        check_input_size(name, whole, place=_place(wired.spec, source))
        inputs[name] = NetInput(whole, follows)
    return inputs


def _with_channels(
    name: str, shape: Shape | None, layers: Sequence[Wired], weights: Weights | None
) -> Shape | None:
    """Return the sizes of images with the channels that the filters which read them have."""
    if weights is None or shape is None or len(shape) != 4 or shape[1] is not None:
        return shape
    same_channels = {name}
    for wired in layers:
        kind = type_of(wired.spec)
        if same_channels.isdisjoint(wired.bottoms):
            continue
        if kind in KEEPING_CHANNELS:
            same_channels.update(wired.tops)
        filters = (weights.layer(wired.spec["name"]) or {}).get(0) if kind == "Convolution" else None
        if filters is not None and len(filters.shape) == 4:
            channels = filters.shape[1] * (wired.spec["convolution_param"]["group"] or 1)
            return (shape[0], channels, *shape[2:])
    return shape


def _is_known(name: str, shape: Shape, wired: Wired) -> bool:
    """Return whether all sizes of an input are known, but for the first and those that stay open."""
    kind, top = type_of(wired.spec), wired.tops.index(name)
    return all(size is not None or (kind, top, axis + 1) in OPEN_SIZES for axis, size in enumerate(shape[1:]))


def _first_sizes(declared: Sequence[Declared], shapes: Sequence[Shape | None]) -> list[int | None]:
    """Return what the file says of each input's axis 0; a layer's tops have it in common."""
    of_layer: dict[int, int | None] = {}
    for _, said, wired in declared:
        if said and wired.spec["type"] not in {"Input", "DummyData"}:
            of_layer.setdefault(id(wired), said[0])
    return [
        said[0] if said else of_layer.get(id(wired), shape[0] if shape else None)
        for (_, said, wired), shape in zip(declared, shapes, strict=True)
    ]


def _batch_size(
    declared: Sequence[Declared], is_batch: Sequence[bool], said: int | None, source: Source
) -> int | None:
    """Return the batch size: that of the first given input that has it on axis 0, or the file's."""
    for (name, _, _), follows in zip(declared, is_batch, strict=True):
        if follows and source.input_shapes.get(name):
            return source.input_shapes[name][0]
    return said


def _of_tops(wired: Wired, folder: Path) -> list[Shape | None]:
    """Return the sizes that the file says for each top of a layer; the last is for all further tops."""
    rule = INPUTS.get(type_of(wired.spec))
    said = (rule(wired.spec, folder) if rule is not None else ()) or [None]
    return [said[min(index, len(said) - 1)] for index in range(len(wired.tops))]


@sizes_of("Input")
def input_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of an Input layer: one shape for all tops, or one for each."""
    return [tuple(shape["dim"]) for shape in spec["input_param"]["shape"]]


@sizes_of("DummyData")
def dummy_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of a DummyData layer, of either form."""
    parameter = spec["dummy_data_param"]
    if parameter["shape"]:
        return [tuple(shape["dim"]) for shape in parameter["shape"]]
    return list(zip(*(parameter[name] for name in ("num", "channels", "height", "width")), strict=False))


@sizes_of("MemoryData")
def memory_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of a MemoryData layer: images and labels."""
    parameter = spec["memory_data_param"]
    images = tuple(parameter[name] or None for name in ("batch_size", "channels", "height", "width"))
    return [images, images[:1]]


@sizes_of("HDF5Data")
def hdf5_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of an HDF5Data layer: only the labels' are known."""
    return [None, (spec["hdf5_data_param"]["batch_size"] or None,)]


@sizes_of("Data", "ImageData", "WindowData")
def image_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of a layer that reads images: batch, channels, and the crop or the size that they get."""
    name = {"Data": "data_param", "ImageData": "image_data_param", "WindowData": "window_data_param"}[
        spec["type"]
    ]
    parameter, transform = spec[name], spec["transform_param"]
    mean = _mean_sizes(transform, folder)
    crop = transform["crop_size"] or (parameter["crop_size"] if spec["type"] == "WindowData" else 0)
    height, width = (crop, crop) if crop else mean[1:]
    if spec["type"] == "ImageData" and not crop:
        height, width = parameter["new_height"] or height, parameter["new_width"] or width
    channels = _num_channels(spec, parameter, transform) or mean[0]
    batch = parameter["batch_size"] or None
    return [(batch, channels, height, width), (batch,)]


@sizes_of("VideoData")
def video_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of C3D 1.0's layer: images in a row, and labels; of those of other branches nothing is known."""
    parameter = spec["image_data_param"]
    if "new_length" not in parameter:
        return [None]
    batch, side = parameter["batch_size"] or None, parameter["crop_size"] or None
    return [(batch, 3, parameter["new_length"], side, side), (batch,)]


@sizes_of("AnnotatedData")
def annotated_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of SSD's layer: images that are made of one size, and one row of 8 numbers for each box."""
    transform = spec["transform_param"]
    crop = transform["crop_size"] or None
    height, width = crop, crop
    for resize in transform["resize_param"][:1]:  # a branch for YOLO draws one of several for each batch
        height, width = resize["height"] or crop, resize["width"] or crop
    channels = _num_channels(spec, spec["data_param"], transform)
    return [(spec["data_param"]["batch_size"] or None, channels, height, width), (None, 1, None, 8)]


@sizes_of("roi_data_layer.layer.RoIDataLayer")
def region_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of Faster R-CNN's layer in Python: an image, and its size and boxes, or regions and targets."""
    image = (None, 3, None, None)
    return [image, (None, 3), (None, 5)] if len(spec["top"]) == 3 else [image, (None, 5), (None,), None]


def _num_channels(spec: Message, parameter: Message, transform: Message) -> int | None:
    if (
        spec["type"] == "WindowData"
        or transform["force_color"]
        or parameter_flag(parameter, "force_encoded_color")
    ):
        return 3
    if spec["type"] == "ImageData":
        return 3 if parameter["is_color"] else 1
    if transform["force_gray"]:
        return 1
    return len(transform["mean_value"]) if len(transform["mean_value"]) > 1 else None


def parameter_flag(parameter: Message, name: str) -> bool:
    """Return whether a flag is set that not every kind of message has."""
    return name in parameter.type.fields and bool(parameter[name])


def _mean_sizes(transform: Message, folder: Path) -> tuple[int | None, int | None, int | None]:
    """Return channels, height and width of the mean image, if it lies beside the net."""
    path = file_beside(folder, transform["mean_file"])
    if path is None:
        return None, None, None
    shape = read_blob(path).shape
    return (shape[-3], shape[-2], shape[-1]) if len(shape) >= 3 else (None, None, None)


def _missing(missing: Sequence[tuple[Wired, str, Shape | None]], source: Source) -> ReadError:
    known = {
        name: "x".join(str(s or c) for s, c in zip(shape, "NCHW", strict=False)) if shape else "Nx..."
        for _, name, shape in missing
    }
    shapes = {name: shape for _, name, shape in missing}
    return open_sizes(known, place=_place(missing[0][0].spec, source), shapes=shapes)


def _place(spec: Message, source: Source) -> str:
    line = f":{spec.line}" if spec.line else ""
    return f"{source.net}{line}: layer {spec['name']!r} ({spec['type']})"

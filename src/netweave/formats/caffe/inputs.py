"""Inputs and data layers of Caffe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UnsupportedError
from netweave.files import Source, file_beside
from netweave.files.protobuf import Message
from netweave.files.prototext import parse_text
from netweave.files.source import is_file, read_bytes
from netweave.files.unknown_names import check_input_names
from netweave.formats.caffe.context import LAYERS
from netweave.formats.caffe.python_code import parse_settings, type_of
from netweave.formats.caffe.schema import caffe_schema
from netweave.formats.caffe.weights import Weights, read_blob
from netweave.formats.lowering import RuleTable
from netweave.formats.lowering.windows import check_input_size, open_sizes
from netweave.job import DataSource

if TYPE_CHECKING:
    from netweave.formats.caffe.net import Wired


# A data layer learns its sizes from its database; what the file leaves open, the caller gives
# (``Source.input_shapes``). Rules: ``input_layer.cpp``, ``data_transformer.cpp`` and the data layers.

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


@sizes_of("DenseImageData", "ImageLabelmapData", "ImageSegData")
def label_image_sizes(spec: Message, folder: Path) -> Sequence[Shape | None]:
    """Sizes of a layer that reads images and the class of each pixel."""
    parameter, crop = spec[LABEL_IMAGES[spec["type"]]], spec["transform_param"]["crop_size"] or None
    size = (crop or parameter["new_height"] or None, crop or parameter["new_width"] or None)
    batch = parameter["batch_size"] or None
    return [(batch, 3 if parameter["is_color"] else 1, *size), (batch, 1, *size)]


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


GIVEN = "given"
"""Kind of a source whose arrays the caller gives: layers that hold none themselves."""

NOT_TAKEN = "@label"
"""How the name ends that a label has which no input takes."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a data layer.

    Attributes:
        file: Name of the net's file.
        root: The folder that the names in it are relative to.
        phase: ``TRAIN`` or ``TEST``.
    """

    file: str
    root: Path
    phase: str

    def path(self, name: str) -> str:
        """Return the path that a name in the file means."""
        return name if "://" in name else str(self.root / name)

    def of(self, spec: Message) -> str:
        """Return the place of a layer, for messages."""
        where = self.file if spec.line is None else f"{self.file}:{spec.line}"
        return f"{where}: layer {spec['name']!r} ({spec['type']})"


Rule = Callable[["Message", Place], DataSource]

SOURCES: RuleTable[Rule, Rule] = RuleTable(lambda rule: rule)
"""The types of layers that read records, with the rule for what they read."""

feeds = SOURCES.register


def data_sources(specs: list[Message], place: Place) -> tuple[DataSource, ...]:
    """Return where the inputs of a net come from, one source for each data layer.

    Args:
        specs: The layers that are part of the net.
        place: Where the net stands.

    Raises:
        ReadError: A layer lacks a setting, or has two that exclude one another.
        UnsupportedError: A layer changes images in a way that is not read.
    """
    return tuple(_rule_of(spec)(spec, place) for spec in specs if brings_data(spec))


def _rule_of(spec: Message) -> Rule:
    is_python = spec["type"] == "Python" and len(spec["top"]) == 2
    return SOURCES.get(spec["type"], python_images if is_python else _given)


def _given(spec: Message, place: Place) -> DataSource:
    tops = tuple(spec["top"])
    return DataSource(GIVEN, tops, max(1, spec["memory_data_param"]["batch_size"]), place=place.of(spec))


@feeds("Data")
def data_base(spec: Message, place: Place) -> DataSource:
    """An LMDB; a LevelDB is refused when it is opened: old files often name one that was converted since."""
    parameter, transform = spec["data_param"], spec["transform_param"]
    color = "gray" if transform["force_gray"] else "bgr" if _wants_color(spec) else "native"
    return _source(
        "lmdb", spec, place, parameter, {"color": color}, _order(parameter), _transforms(spec, place)
    )


@feeds("AnnotatedData")
def annotated(spec: Message, place: Place) -> DataSource:
    """SSD's images with boxes, an LMDB of AnnotatedDatum: distorted, expanded, cut out by their boxes."""
    settings = {"color": "bgr", "names": _class_names(spec, place)}
    steps = (*detection_steps(spec, place), *_transforms(spec, place, _UNREAD_OF_BOXES))
    parameter = spec["data_param"]
    return _source("annotated_lmdb", spec, place, parameter, settings, _order(parameter), steps)


MAX_CLASSES = 100_000


def _class_names(spec: Message, place: Place) -> list[str]:
    """Return the names of the classes by number, of the layer's map of labels; none where it is not there."""
    name = spec["annotated_data_param"]["label_map_file"]
    file = Path(place.path(name)) if name else None
    if file is None or not is_file(file):
        return []
    items = parse_text(read_bytes(file), caffe_schema(), "LabelMap", place=str(file))["item"]
    numbers = {item["label"]: item["name"] for item in items}
    wrong = next((number for number in numbers if not 0 <= number < MAX_CLASSES), None)
    if wrong is not None:
        raise ReadError(f"has a class of number {wrong}, expected 0 to {MAX_CLASSES - 1}", place=str(file))
    return [numbers.get(number, "") for number in range(max(numbers, default=-1) + 1)]


def detection_steps(spec: Message, place: Place) -> Iterator[dict[str, Any]]:
    """Yield what SSD's branch does to images and their boxes before anything else, in its order.

    Raises:
        UnsupportedError: It resizes in a way that is not read.
    """
    transform = spec["transform_param"]
    if "distort_param" in transform:
        given = transform["distort_param"]
        yield {
            "kind": "colour_distortion",
            "brightness": given["brightness_delta"],
            "brightness_probability": given["brightness_prob"],
            "contrasts": [given["contrast_lower"], given["contrast_upper"]],
            "contrast_probability": given["contrast_prob"],
            "saturations": [given["saturation_lower"], given["saturation_upper"]],
            "saturation_probability": given["saturation_prob"],
            "hue": given["hue_delta"],
            "hue_probability": given["hue_prob"],
            "order_probability": given["random_order_prob"],
        }
    if "expand_param" in transform:
        given = transform["expand_param"]
        yield {
            "kind": "expand",
            "probability": given["prob"],
            "max_ratio": given["max_expand_ratio"],
            "fill": list(transform["mean_value"]),
        }
    samplers = [
        _window_sampler(sampler)
        for sampler in spec["annotated_data_param"]["batch_sampler"]
        if sampler["use_original_image"] and (sampler["max_sample"] or "max_sample" not in sampler)
    ]
    if samplers:
        yield {"kind": "window_samplers", "samplers": samplers, **_kept_boxes(transform)}
    for resize in transform["resize_param"]:
        yield _resize(resize, spec, place)


_CONSTRAINTS = tuple(
    f"{end}_{measure}"
    for end in ("min", "max")
    for measure in ("jaccard_overlap", "sample_coverage", "object_coverage")
)
"""Fields of SampleConstraint."""


def _window_sampler(sampler: Message) -> dict[str, Any]:
    """Return the settings of a batch sampler."""
    chosen, constraint = sampler["sampler"], sampler["sample_constraint"]
    limits = {field: constraint[field] for field in _CONSTRAINTS if field in constraint}
    return {
        "scales": [chosen["min_scale"], chosen["max_scale"]],
        "ratios": [chosen["min_aspect_ratio"], chosen["max_aspect_ratio"]],
        "overlaps": [limits.get("min_jaccard_overlap", 0.0), limits.get("max_jaccard_overlap", 1.0)],
        "sample_coverages": [limits.get("min_sample_coverage", 0.0), limits.get("max_sample_coverage", 1.0)],
        "object_coverages": [limits.get("min_object_coverage", 0.0), limits.get("max_object_coverage", 1.0)],
        "trials": sampler["max_trials"],
        "windows": sampler["max_sample"],
        "needs_object": bool(limits),
    }


def _kept_boxes(transform: Message) -> dict[str, Any]:
    """Return which boxes stay in a window that is cut out: without a constraint, those that reach into it."""
    if "emit_constraint" not in transform:
        return {"keep": "overlap", "keep_overlap": 0.0}
    constraint = transform["emit_constraint"]
    if constraint["emit_type"] == "CENTER":
        return {"keep": "center"}
    return {"keep": "overlap", "keep_overlap": constraint["emit_overlap"]}


INTERPOLATIONS = {
    "LINEAR": "linear",
    "AREA": "area",
    "NEAREST": "nearest",
    "CUBIC": "cubic",
    "LANCZOS4": "lanczos",
}
"""Names of OpenCV's interpolations in SSD's branch."""


def _resize(resize: Message, spec: Message, place: Place) -> dict[str, Any]:
    modes = list(resize["interp_mode"]) or ["LINEAR"]
    is_any = set(modes) == set(INTERPOLATIONS)
    if resize["resize_mode"] != "WARP" or resize["prob"] != 1 or not (is_any or len(modes) == 1):
        raise UnsupportedError(
            f"resizes by {resize['resize_mode']} with probability {resize['prob']:g} and {', '.join(modes)}; "
            "supported is WARP with probability 1, with one interpolation or all of them",
            place=place.of(spec),
        )
    interpolation = "random" if is_any else INTERPOLATIONS[modes[0]]
    size = {"height": resize["height"], "width": resize["width"]}
    return {"kind": "resize", **size, "interpolation": interpolation}


@feeds("ImageData")
def image_list(spec: Message, place: Place) -> DataSource:
    """A list of image files with their labels."""
    parameter = spec["image_data_param"]
    folder = parameter["root_folder"]
    settings = {
        # Caffe puts the folder before each name as it is, without a slash; without one, names are relative to
        # where it was started
        "root_folder": str(place.root / folder) + "/" * folder.endswith("/") if folder else "",
        "base": "" if folder else str(place.root),
        "color": "bgr" if parameter["is_color"] else "gray",
    }
    height, width = parameter["new_height"], parameter["new_width"]
    if bool(height) != bool(width):
        raise ReadError(
            "has only one of new_height and new_width, expected both or neither", place=place.of(spec)
        )
    resize = ({"kind": "resize", "height": height, "width": width},) if height else ()
    transforms = (*resize, *_transforms(spec, place))
    return _source("images", spec, place, parameter, settings, _order(parameter), transforms)


LABEL_IMAGES = {
    "DenseImageData": "dense_image_data_param",
    "ImageLabelmapData": "image_data_param",
    "ImageSegData": "image_data_param",
}
"""Layers of SegNet, HED and DeepLab that read images with label images, and the field of their settings."""


@feeds(*LABEL_IMAGES)
def label_images(spec: Message, place: Place) -> DataSource:
    """A list of image files with their label images."""
    parameter = spec[LABEL_IMAGES[spec["type"]]]
    folder = parameter["root_folder"]
    settings = {
        "root_folder": str(place.root / folder) + "/" * folder.endswith("/") if folder else "",
        "base": "" if folder else str(place.root),
        "color": "bgr" if parameter["is_color"] else "gray",
    }
    height, width = parameter["new_height"], parameter["new_width"]
    resize = ({"kind": "resize", "height": height, "width": width},) if height and width else ()
    transforms = (*resize, *_transforms(spec, place))
    return _source("label_images", spec, place, parameter, settings, _order(parameter), transforms)


def python_images(spec: Message, place: Place) -> DataSource:
    """The authors' own layer for images and label images: what it subtracts is known, its records are not."""
    tops = tuple(spec["top"])
    try:
        mean = parse_settings(spec["python_param"]["param_str"]).get("mean")
    except ValueError:
        mean = None
    subtract = ({"kind": "subtract", "values": list(mean)},) if mean else ()
    return DataSource(GIVEN, tops, 1, {"path": ""}, {}, subtract, place.of(spec))


@feeds("DummyData")
def dummy(spec: Message, place: Place) -> DataSource:
    """Arrays made by fillers; the caller gives them where the tops have batches of different sizes."""
    tops = tuple(spec["top"])
    said = list(INPUTS["DummyData"](spec, place.root))
    shapes = [tuple(said[min(index, len(said) - 1)] or ()) for index in range(len(tops))] if said else []
    if not shapes or len({shape[:1] for shape in shapes}) != 1 or not all(shapes):
        return _given(spec, place)
    fillers = [
        {"type": filler["type"], **{name: filler[name] for name in ("value", "min", "max", "mean", "std")}}
        for filler in spec["dummy_data_param"]["data_filler"]
    ]
    settings = {
        "shapes": [list(shape[1:]) for shape in shapes],
        "fillers": fillers or [{"type": "constant"}],
        "place": place.of(spec),
    }
    return DataSource("filled", tops, int(shapes[0][0] or 1), settings, place=place.of(spec))


@feeds("WindowData")
def windows(spec: Message, place: Place) -> DataSource:
    """Windows of images; the layer's own crop, mirror and mean are read where there are no newer ones."""
    parameter, transform = spec["window_data_param"], spec["transform_param"]
    crop = transform["crop_size"] or parameter["crop_size"]
    if not crop:
        raise ReadError("has no crop_size, expected one in its transform_param", place=place.of(spec))
    mean = transform["mean_file"] or parameter["mean_file"]
    settings = {
        **{name: parameter[name] for name in ("batch_size", "fg_threshold", "bg_threshold", "fg_fraction")},
        **{name: parameter[name] for name in ("context_pad", "crop_mode", "root_folder")},
        "crop_size": crop,
        "mirror": bool(transform["mirror"] or parameter["mirror"]),
        "mean_file": place.path(mean) if mean else "",
        "mean_values": list(transform["mean_value"]),
        "scale": transform["scale"] * parameter["scale"],
    }
    return _source("windows", spec, place, parameter, settings, {}, ())


@feeds("HDF5Data")
def hdf5_list(spec: Message, place: Place) -> DataSource:
    """Datasets with the names of the tops, as they are."""
    parameter = spec["hdf5_data_param"]
    settings = {"datasets": list(spec["top"]), "root": str(place.root)}
    return _source("hdf5", spec, place, parameter, settings, _order(parameter), ())


def _source(
    kind: str,
    spec: Message,
    place: Place,
    parameter: Message,
    settings: dict[str, Any],
    order: dict[str, Any],
    transforms: tuple[dict[str, Any], ...],
) -> DataSource:
    for name in ("source", "batch_size"):
        if not parameter[name]:
            raise ReadError(f"has no {name}, expected one in its data parameters", place=place.of(spec))
    tops = tuple(spec["top"])
    if kind != "hdf5" and len(tops) == 1:
        tops = (*tops, f"{spec['name']}{NOT_TAKEN}")  # records have a label all the same
    return DataSource(
        kind,
        tops,
        parameter["batch_size"],
        {"path": place.path(parameter["source"]), **settings},
        order,
        transforms,
        place.of(spec),
    )


def _order(parameter: Message) -> dict[str, Any]:
    order: dict[str, Any] = {}
    if "shuffle" in parameter.type.fields and parameter["shuffle"]:
        order["shuffle"] = True
    if "rand_skip" in parameter.type.fields and parameter["rand_skip"]:
        order["skip"] = parameter["rand_skip"]
    return order


def _wants_color(spec: Message) -> bool:
    return bool(spec["transform_param"]["force_color"] or spec["data_param"]["force_encoded_color"])


_UNREAD = ("resize_param", "noise_param", "distort_param", "expand_param", "crop_h", "crop_w")
"""What other branches do to images and Netweave does not."""


_UNREAD_OF_BOXES = ("noise_param", "crop_size", "crop_h", "crop_w", "mean_file")
"""Changes of images with boxes in SSD's branch that Netweave does not make."""


def _transforms(
    spec: Message, place: Place, unread_fields: Sequence[str] = _UNREAD
) -> tuple[dict[str, Any], ...]:
    """Return what DataTransformer does: crop, mirror, subtract the mean, scale."""
    parameter = spec["transform_param"]
    unread = [name for name in unread_fields if name in parameter]
    if unread:
        raise UnsupportedError(
            f"transforms images by {', '.join(unread)}, which is not supported", place=place.of(spec)
        )
    crop, mean, values = parameter["crop_size"], parameter["mean_file"], parameter["mean_value"]
    if mean and values:
        raise ReadError("has both mean_file and mean_value, expected one of them", place=place.of(spec))
    steps: list[dict[str, Any]] = []
    if crop:
        where = "random" if place.phase == "TRAIN" else "centre"
        steps.append({"kind": "crop", "height": crop, "width": crop, "where": where})
    if parameter["mirror"]:
        steps.append({"kind": "mirror"})
    if mean:
        steps.append({"kind": "subtract", "path": place.path(mean)})
    if values:
        steps.append({"kind": "subtract", "values": list(values)})
    if parameter["scale"] != 1.0:
        steps.append({"kind": "scale", "factor": parameter["scale"]})
    return tuple(steps)

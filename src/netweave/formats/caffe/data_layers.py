"""From Caffe's data layers to the sources of a Job; rules of the data layers and ``data_transformer.cpp``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UnsupportedError
from netweave.formats.caffe.inputs import INPUTS, brings_data
from netweave.formats.lowering import RuleTable
from netweave.job import DataSource

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files.protobuf import Message

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
    return tuple(SOURCES.get(spec["type"], _given)(spec, place) for spec in specs if brings_data(spec))


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
    """SSD's images with boxes: their records are not read, nor are they cut out by their boxes."""
    samplers = len(spec["annotated_data_param"]["batch_sampler"])
    changes = [name for name in _UNREAD if name in spec["transform_param"]]
    raise UnsupportedError(
        f"its records (AnnotatedDatum), {samplers} batch samplers and {', '.join(changes) or 'no changes'} "
        "of images are not supported for training; train the net on your own batches instead, with its label "
        "as (1, 1, boxes, 8): image, class, number, x0, y0, x1, y1, difficult",
        place=place.of(spec),
    )


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


def _transforms(spec: Message, place: Place) -> tuple[dict[str, Any], ...]:
    """Return what DataTransformer does: crop, mirror, subtract the mean, scale."""
    parameter = spec["transform_param"]
    unread = [name for name in _UNREAD if name in parameter]
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

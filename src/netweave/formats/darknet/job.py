"""Jobs of Darknet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.files.image_lists import image_files
from netweave.formats.darknet.config import DataFile, Section, read_config, with_lists
from netweave.formats.darknet.losses import images_per_pass, images_per_update
from netweave.formats.darknet.reader import INPUT, TRUTH, build, match
from netweave.graph import known_shape
from netweave.job import Checkpoints, DataSource, Job, JobOptions, Phase, Policy, Schedule, Solver

POLICIES = ("constant", "step", "steps", "exp", "poly", "sigmoid", "sgdr")

NOT_DONE = ("mosaic", "cutmix", "mixup", "blur", "gaussian_noise", "letter_box", "angle", "aspect")
"""Augmentations of AlexeyAB's branch, and of classifiers, that are left out."""

NOT_READ = ("adversarial_lr", "contrastive", "ema_alpha", "train_only_bn", "dynamic_minibatch")
"""Settings of AlexeyAB's branch that change what is learned."""


def read_solver(net: Section) -> Solver:
    """Return how gradients change parameters.

    Raises:
        ReadError: A setting is not what it must be.
        UnsupportedError: It asks for something that is not read.
    """
    given = [name for name in NOT_READ if net.number(name, 0.0)]
    if given:
        settings = ", ".join(f"{name}={net.settings[name]}" for name in given)
        raise UnsupportedError(f"{settings}: not supported in training; remove it", place=net.place)
    decay = net.number("decay", 0.0001)
    kind, rule = "darknet.sgd", {"momentum": net.number("momentum", 0.9)}
    if net.flag("adam"):
        kind, rule = "darknet.adam", {name: net.number(name, default) for name, default in _ADAM.items()}
        rule["images"] = images_per_update(net)
    accumulate = net.integer("subdivisions", 1, least=1)
    return Solver(kind, _policy(net), {**rule, "weight_decay": decay}, accumulate=accumulate)


_ADAM = {"B1": 0.9, "B2": 0.999, "eps": 1e-7}


def _policy(net: Section) -> Policy:
    name = net.string("policy", "constant")
    if name not in POLICIES:
        place = net.place_of(net.lines["policy"])
        raise UnsupportedError(f"unknown policy {name!r}, expected {', '.join(POLICIES)}", place=place)
    settings: dict[str, Any] = {"burn_in": net.integer("burn_in", 0), "power": net.number("power", 4.0)}
    return Policy(f"darknet.{name}", net.number("learning_rate", 0.001), settings | _own_settings(net, name))


def _own_settings(net: Section, name: str) -> dict[str, Any]:
    """Return the numbers that a policy reads besides those that all have."""
    most = net.integer("max_batches", 0)
    if name == "steps":
        steps, scales = net.integers("steps"), net.numbers("scales")
        if not steps or len(steps) != len(scales):
            which = "steps" if not steps or net.has("scales") else "scales"
            raise net.read_error(which, f"as many steps as scales, not {len(steps)} and {len(scales)}")
        return {"steps": list(steps), "scales": list(scales)}
    rows: dict[str, dict[str, Any]] = {
        "step": {"step": net.integer("step", 1, least=1), "scale": net.number("scale", 1.0)},
        "exp": {"gamma": net.number("gamma", 1.0)},
        "sigmoid": {"gamma": net.number("gamma", 1.0), "step": net.integer("step", 1)},
        "poly": {"max_batches": most},
        "sgdr": {
            "sgdr_cycle": net.integer("sgdr_cycle", most),
            "sgdr_mult": net.integer("sgdr_mult", 2),
            "learning_rate_min": net.number("learning_rate_min", 0.00001),
        },
    }
    return rows.get(name, {})


MAX_BOXES = {"yolo": 90, "region": 30}
"""Ground-truth boxes of an image that a head looks at, where its ``max`` says nothing."""

SAVE_EVERY = 1000
"""Updates between two checkpoints."""

TEST_LEAST = 100
"""At least so many updates are between two tests, as in AlexeyAB's branch; else an epoch."""

THRESHOLD = 0.005
"""Least score of a detection that average precision looks at (``validate_detector``)."""

OVERLAP = 0.45
"""Largest overlap of two detections of one class (``validate_detector``)."""

DISPLAY_ALL = 500
"""A run of at most so many updates shows each of them, a longer one every tenth."""

VOC_NAMES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train"),
    "tvmonitor",
)
"""Pascal VOC's classes in the order of its ``VOCinit.m``, for its own folders, which do not say."""


def is_job(path: Path) -> bool:
    """Return whether a file is a net of Darknet, whose section ``[net]`` is its solver."""
    return match(Source(path))


def read_job(path: Path, options: JobOptions) -> Job:
    """Read how to train a detector.

    Args:
        path: The ``.cfg``.
        options: ``data`` says where images are: a ``.data`` file or a folder of VOC's under ``""``, or lists
            under ``train`` and ``test``.

    Raises:
        SourceError: A file cannot be read, the net has no head that can be trained, or the data does not fit.
        UsageError: There is no data, or an option is given that does not fit.
    """
    if options.stages or options.level:
        raise UsageError(f"{path}: a .cfg has no stages and no level; leave them out")
    sections = read_config(path)
    heads = [section for section in sections if section.type in MAX_BOXES]
    if not heads:
        raise UnsupportedError(
            "has no [yolo] and no [region] layer; nets of Darknet without them cannot be trained",
            place=str(path),
        )
    if not options.data:
        raise UsageError(
            f"{path}: says nothing of images; give a .data file, or a folder like Pascal VOC's (--data PATH)"
        )
    images = with_lists(options.data)
    if images.train is None:
        raise UsageError(f"{images.place}: has no images to train on; give --data train=LIST")
    reader = _JobReader(path, sections, heads, images, options)
    return reader.job()


def class_names(images: DataFile) -> tuple[str, ...]:
    """Return the names of the classes; none where nothing says. A folder without them has Pascal VOC's."""
    return images.names or (VOC_NAMES if Path(images.place).is_dir() else ())


def anchor_unit(path: Path) -> tuple[str, tuple[int, int]]:
    """Return what anchors of a net are in, and how many of it make the width and height of its input.

    Raises:
        SourceError: The net cannot be read, or has no head with anchors.
    """
    sections = read_config(path)
    head = next((section for section in reversed(sections) if section.type in MAX_BOXES), None)
    if head is None:
        raise UnsupportedError("has no [yolo] and no [region] layer, which have anchors", place=str(path))
    width, height = (sections[0].integer(name, 0, least=1) for name in ("width", "height"))
    if head.type == "yolo":
        return "pixels", (width, height)
    shape = known_shape(build(sections, Source(path), None).graph.outputs[-1]) or ()
    return "cells", (int(shape[3] or 1), int(shape[2] or 1))


class _JobReader:
    """Reader of the parts of a Job."""

    def __init__(
        self,
        path: Path,
        sections: Sequence[Section],
        heads: Sequence[Section],
        images: DataFile,
        options: JobOptions,
    ) -> None:
        self._path, self._sections, self._images, self._options = path, sections, images, options
        self._net, self._last = sections[0], heads[-1]
        self._classes = _num_classes(heads, images)
        self._max_boxes = max(head.integer("max", MAX_BOXES[head.type], least=1) for head in heads)
        self._batch = images_per_pass(self._net)
        self._size = {name: self._net.integer(name, 0, least=1) for name in ("height", "width")}

    def job(self) -> Job:
        """Return the Job."""
        phases = {"train": self._train()}
        if self._images.valid is not None:
            phases["test"] = self._test(self._images.valid)
        return Job(
            name=self._path.stem,
            phases=phases,
            solver=read_solver(self._net),
            schedule=self._schedule(),
            checkpoints=self._checkpoints(),
            files=(str(self._path), *([self._images.place] if self._images.place else [])),
            notes=self._notes(),
        )

    def _train(self) -> Phase:
        source = Source(self._path, phase="TRAIN", input_shapes=self._options.input_shapes)
        net = build(self._sections, source, None, max_boxes=self._max_boxes)
        assert self._images.train is not None
        data = self._data(self._images.train, order={"shuffle": True}, difficult=False)
        return Phase(net.graph, (data,), net.losses)

    def _test(self, valid: Path) -> Phase:
        num_images = len(image_files(valid, self._images.root))
        data = self._data(valid, order={"last": "pad"}, difficult=True)
        data = replace(data, batch_size=min(data.batch_size, num_images))
        source = Source(self._path, input_shapes=self._options.input_shapes)
        net = build(self._sections, source, None, max_boxes=self._rows(data))
        metric = {
            "kind": "boxes",
            "truth": TRUTH,
            "names": list(self._names()),
            "num_images": num_images,
            "threshold": THRESHOLD,
            "overlap": OVERLAP,
        }
        batches = ceil(num_images / data.batch_size)
        return Phase(net.graph, (data,), net.losses, num_batches=batches, metric=metric)

    def _data(self, images: Path, *, order: dict[str, Any], difficult: bool) -> DataSource:
        """Return the source of the images of a phase, as they come into the net."""
        settings = {
            "path": str(images),
            "classes": self._classes,
            "names": list(self._names()),
            "root": str(self._images.root),
            "difficult": difficult,
        }
        training = not difficult
        transforms = self._augmentation() if training else [{"kind": "place", **self._size}]
        return DataSource(
            "boxes",
            (INPUT, TRUTH),
            self._batch,
            settings,
            order,
            (*transforms, {"kind": "scale", "factor": 1 / 255}),
            place=self._images.place or str(images),
        )

    def _augmentation(self) -> list[dict[str, Any]]:
        """Return what happens to an image in training (``load_data_detection``); ``flip=0`` is AlexeyAB's."""
        place = {
            "kind": "place",
            **self._size,
            "jitter": self._last.number("jitter", 0.2),
            "where": "random",
            "max_boxes": self._max_boxes,
        }
        colors = {"hue": 0.0, "saturation": 1.0, "exposure": 1.0}
        wanted = {name: self._net.number(name, default) for name, default in colors.items()}
        jitter = [{"kind": "hsv_jitter", **wanted}] if wanted != colors else []
        return [place, *jitter, *([{"kind": "mirror"}] if self._net.integer("flip", 1) else [])]

    def _names(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        names = class_names(self._images)
        if len(names) == self._classes:
            return names
        return tuple(f"class {number}" for number in range(self._classes))

    def _rows(self, data: DataSource) -> int:
        """Return for how many boxes of an image the records of a source have room."""
        probe = self._options.probe
        return self._max_boxes if probe is None else probe(data)[TRUTH][1]

    def _schedule(self) -> Schedule:
        assert self._images.train is not None
        per_update = self._batch * self._net.integer("subdivisions", 1, least=1)
        epoch = len(image_files(self._images.train, self._images.root)) // per_update
        updates = self._net.integer("max_batches", 0, least=0)
        if not updates:
            raise self._net.read_error("max_batches", "the number of updates to make")
        return Schedule(
            max_iterations=updates,
            display_interval=1 if updates <= DISPLAY_ALL else 10,
            average_loss=10,
            test_interval=0 if self._images.valid is None else _test_interval(updates, epoch),
            test_at_start=False,
            display_at_end=False,
        )

    def _checkpoints(self) -> Checkpoints:
        folder = self._images.backup or self._path.parent
        return Checkpoints(prefix=str(folder / self._path.stem), interval=SAVE_EVERY, formats=("weights",))

    def _notes(self) -> tuple[str, ...]:
        notes = [
            f"{self._net.place}: {name}={self._net.settings[name]} is not done"
            for name in NOT_DONE
            if self._net.number(name, _NEUTRAL.get(name, 0.0)) != _NEUTRAL.get(name, 0.0)
        ]
        if self._last.integer("random", 0):
            size = f"{self._size['width']}x{self._size['height']}"
            notes.append(
                f"{self._last.place}: random=1 is not done: images keep the size of the net, {size}, where "
                "Darknet draws a size from 320 to 608 every 10 updates"
            )
        return tuple(notes)


_NEUTRAL = {"aspect": 1.0}
"""Numbers with which a setting does nothing, where that is not 0."""


def _test_interval(updates: int, epoch: int) -> int:
    """Return how many updates are between two tests: such that one is near the end, or behind it."""
    num_tests = max(1, round(updates / max(TEST_LEAST, epoch)))
    return max(1, updates // num_tests)


def _num_classes(heads: Sequence[Section], images: DataFile) -> int:
    """Return the number of classes, which the heads, the names and the ``.data`` file must agree on.

    Raises:
        ReadError: They do not.
    """
    counts = {head.integer("classes", 20, least=1) for head in heads}
    if len(counts) > 1:
        raise heads[-1].read_error("classes", f"the same in all heads, found {sorted(counts)}")
    (classes,) = counts
    for what, count in (("names", len(images.names)), ("classes", images.classes)):
        if count not in {0, classes}:
            raise ReadError(
                f"its {what} say {count}, but the heads of {heads[-1].file} have classes={classes}",
                place=images.place,
            )
    return classes

"""Inputs and data layers of SINGA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError
from netweave.files import Source
from netweave.files.unknown_names import check_input_names
from netweave.formats.lowering.windows import check_input_size, open_sizes
from netweave.graph import BATCH, GraphBuilder
from netweave.job import DataSource

if TYPE_CHECKING:
    from netweave.formats.singa.unroll import Unit


# Chains of input layers (``kShardData`` -> ``kMnist``, ``kRecordInput`` -> ``kImagePreprocess``) do to
# records what is no part of the net; the net's input is what the last of them gives, under its name.

Shape = tuple[int | None, ...]

Sizes = Callable[["Unit", Shape], Shape]
"""Sizes of what a layer gives, batch first, from its settings and the sizes of its source."""

INPUTS: dict[str, Sizes] = {}
"""The types of layers that bring data into a net, with the rule for their sizes; None where open."""

LABEL = "label"
"""Name of the input that the labels of records become, unless a layer has it."""

UNLABELLED = ("kCharRNN", "kRNNDummy", "kDummy")
"""Types of inputs whose records have no label."""


def sizes_of(*types: str) -> Callable[[Sizes], Sizes]:
    """Register the decorated function for types of layers that bring data into the net."""

    def register(rule: Sizes) -> Sizes:
        INPUTS.update(dict.fromkeys(types, rule))
        return rule

    return register


def is_input(unit: Unit) -> bool:
    """Return whether a layer brings data into the net; dummies do if they read no other layer."""
    kind = unit.spec["type"]
    return kind in INPUTS and not (unit.sources and kind in {"kDummy", "kRNNDummy"})


@sizes_of("kRecordInput", "kCSVInput")
def store_sizes(unit: Unit, source: Shape) -> Shape:
    """The batch (one number, or one for each worker) and the sizes of a record: ``store.cc``."""
    store = unit.spec["store_conf"]
    return (sum(store["batchsize"]) or None, *(store["shape"] or [None]))


@sizes_of("kShardData", "kLMDBData")
def records(unit: Unit, source: Shape) -> Shape:
    """The batch; a record's sizes are in the data."""
    name = {"kShardData": "sharddata_conf", "kLMDBData": "lmdbdata_conf"}[unit.spec["type"]]
    return (unit.spec[name]["batchsize"] or None, None)


@sizes_of("kMnist")
def mnist_sizes(unit: Unit, source: Shape) -> Shape:
    """Square images of one channel."""
    return (*source[:1], 1, None, None)


@sizes_of("kRGBImage", "kImagePreprocess")
def image_sizes(unit: Unit, source: Shape) -> Shape:
    """Images, cut to a square if ``cropsize`` says so."""
    crop = unit.spec["rgbimage_conf"]["cropsize"] or None
    whole = source if len(source) == 4 else (*source[:1], None, None, None)
    return (*whole[:2], crop, crop) if crop else whole


@sizes_of("kLabel")
def label_sizes(unit: Unit, source: Shape) -> Shape:
    """One number for each record."""
    return source[:1]


@sizes_of("kCharRNN")
def character_sizes(unit: Unit, source: Shape) -> Shape:
    """Numbers of characters [step, record]: those that are read, and the one after."""
    settings = unit.spec["char_rnn_conf"]
    return (settings["unroll_len"] + 1, settings["batchsize"])


@sizes_of("kDummy")
def dummy_sizes(unit: Unit, source: Shape) -> Shape:
    """The sizes that are said."""
    return tuple(unit.spec["dummy_conf"]["shape"]) or (None,)


@sizes_of("kRNNDummy")
def sample_sizes(unit: Unit, source: Shape) -> Shape:
    """The sizes that are said: what a sampling run starts from."""
    return tuple(unit.spec["rnn_dummy_conf"]["shape"]) or (None,)


@dataclass(slots=True)
class InputLayer:
    """The outputs of an input layer; an input of the net is made when a layer reads it.

    Attributes:
        unit: The layer.
        origin: What it reads; None for the first of a chain.
        inputs: The inputs of the net.
    """

    unit: Unit
    origin: InputLayer | None
    inputs: Inputs

    def sizes(self) -> Shape:
        """Return the sizes of what it gives, as far as they are known."""
        source = self.origin.sizes() if self.origin else ()
        return self.inputs.given(self.unit.name) or INPUTS[self.unit.spec["type"]](self.unit, source)

    def data(self, step: int = 0) -> ir.Value:
        """Return what a layer reads; of characters those of one step."""
        value = self.inputs.value(self.unit.name, self.sizes(), self)
        if self.unit.spec["type"] != "kCharRNN":
            return value
        count = self.sizes()[0] or 0
        if step >= count:
            raise ReadError(
                f"has 'unroll_len' {count - 1} in its 'char_rnn_conf', but step {step} is needed; set it to "
                "the 'unroll_len' of the layers",
                place=self.unit.place(self.inputs.place),
            )
        builder = self.inputs.builder
        return builder.add("Gather", [value, builder.constant(step, dtype="int64")], {"axis": 0})

    def label(self) -> ir.Value | None:
        """Return the numbers of classes of its records; None if they have none."""
        kind = self.unit.spec["type"]
        if kind == "kLabel":
            return self.data()
        if kind in UNLABELLED or not self.unit.spec["store_conf"]["has_label"]:
            return None
        return self.origin.label() if self.origin else self.inputs.labels(self)


SizesOfRecords = Callable[[InputLayer, str, ReadError], Shape]
"""Looks for the sizes of an input in its records; what is raised otherwise is the third argument."""


class Inputs:
    """The inputs of a net, made one by one as they are read.

    Args:
        builder: Where they go.
        source: The net's files and the sizes that the caller gives.
        taken: Names that an input of labels may not have: those of the layers.
        look_up: Looks for sizes that neither file nor caller give; None where there are no records.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        source: Source,
        taken: Sequence[str],
        look_up: SizesOfRecords | None = None,
    ) -> None:
        self.builder = builder
        self.place = str(source.net)
        self._source = source
        self._taken = set(taken)
        self._look_up = look_up
        self._found: dict[str, Shape] = {}
        self._values: dict[str, ir.Value] = {}
        self.read_by: dict[str, list[str]] = {}

    def given(self, name: str) -> Shape:
        """Return the sizes that the caller gives for an input, or that were found in its records, or none."""
        return self._source.input_shapes.get(name) or self._found.get(name, ())

    def value(self, name: str, shape: Shape, feed: InputLayer) -> ir.Value:
        """Return an input of the net.

        Raises:
            ReadError: A size is not known.
            ShapeError: It would be too large.
        """
        self.read_by.setdefault(feed.unit.name, [])
        if name not in self._values:
            shape = self._checked(name, shape, feed)
            if feed.unit.spec["type"] == "kCharRNN":
                made = self.builder.input(name, (shape[0], BATCH), batch=False)
            else:
                made = self.builder.input(name, shape)
            self._values[name] = made
        if name not in self.read_by[feed.unit.name]:
            self.read_by[feed.unit.name].append(name)
        return self._values[name]

    def labels(self, feed: InputLayer) -> ir.Value:
        """Return the input that holds the labels of records."""
        name = LABEL if LABEL not in self._taken else f"{feed.unit.name}/{LABEL}"
        return self.value(name, self.given(name) or feed.sizes()[:1], feed)

    def finish(self) -> None:
        """Raise ``UsageError`` if sizes are given for something that is no input."""
        place = f"{self.place} in phase {self._source.phase}"
        check_input_names(self._source.input_shapes, self._values, place=place)

    def _checked(self, name: str, shape: Shape, feed: InputLayer) -> Shape:
        """Return the sizes of an input, those that are open looked up in its records."""
        place = feed.unit.place(self.place)
        if any(size is None for size in shape[1:]) or not shape:
            letters = "".join("NCHW"[: len(shape)] if len(shape) > 2 else "N")
            known = "x".join(str(size or letter) for size, letter in zip(shape, letters, strict=False))
            dots = "" if len(shape) > 2 else "x..."
            error = open_sizes({name: f"{known}{dots}"}, place=place)
            if self._look_up is None:
                raise error
            shape = self._found[name] = self._look_up(feed, name, error)
        check_input_size(name, shape, place=place)
        return shape


_DATA = {"kShardData": ("shard", "sharddata_conf"), "kLMDBData": ("lmdb", "lmdbdata_conf")}
"""Layers of 0.1 that read records: what holds them, and the field that says where."""

_STORES = {"kvfile": "kvfile", "lmdb": "record_lmdb"}
"""Kinds of stores that hold records: the kind of source."""

_LABELLED = ("kvfile", "shard", "lmdb", "record_lmdb", "textfile")
"""Kinds of sources whose records have a label, whether a layer reads it or not."""

_DISTORTIONS = ("kernel", "sigma", "alpha", "beta", "gamma", "resize", "elastic_freq")
"""Settings of kMnist that resize, rotate, shear or bend images."""

NOT_TAKEN = "@label"
"""At the end of the name of labels that no layer reads; records have them all the same."""


def data_sources(feeds: Mapping[str, InputLayer], *, training: bool) -> tuple[DataSource, ...]:
    """Return where the inputs of a net come from: one source for each chain of input layers.

    Args:
        feeds: The input layers of the net by name.
        training: Whether the net is that of training; only then images are cut and mirrored at random.
    """
    chains: dict[str, list[InputLayer]] = {}
    for feed in feeds.values():
        first = feed
        while first.origin is not None:
            first = first.origin
        chains.setdefault(first.unit.name, []).append(feed)
    sources = []
    for chain in chains.values():
        outputs = [name for feed in chain for name in feed.inputs.read_by.get(feed.unit.name, ())]
        if outputs:
            sources.append(_source(chain, tuple(dict.fromkeys(outputs)), training=training))
    return tuple(sources)


def source_of(feed: InputLayer, name: str) -> DataSource:
    """Return where one input comes from, as it is in training: for a look at its records.

    Args:
        feed: The layer that gives it.
        name: Its name.
    """
    chain = [feed]
    while chain[0].origin is not None:
        chain.insert(0, chain[0].origin)
    return _source(chain, (name,), training=True)


def _source(chain: Sequence[InputLayer], outputs: tuple[str, ...], *, training: bool) -> DataSource:
    unit = chain[0].unit
    kind, settings, order = _records(unit, chain[0].inputs.place)
    sizes = chain[0].sizes()
    batch = sizes[1] if unit.spec["type"] == "kCharRNN" else sizes[0]
    labels = [name for feed in chain for name in _labels(feed, outputs)]
    data_first = (*(name for name in outputs if name not in labels), *labels)
    if not labels and kind in _LABELLED:
        data_first = (*data_first, f"{unit.name}{NOT_TAKEN}")
    transforms = tuple(
        row for feed in chain for row in _transforms(feed.unit, feed.inputs.place, training=training)
    )
    place = unit.place(chain[0].inputs.place)
    return DataSource(kind, data_first, batch or 1, settings, order, transforms, place)


def _labels(feed: InputLayer, outputs: tuple[str, ...]) -> list[str]:
    if feed.unit.spec["type"] == "kLabel":
        return [feed.unit.name] if feed.unit.name in outputs else []
    return [name for name in feed.inputs.read_by.get(feed.unit.name, ()) if name != feed.unit.name]


def _record_store(unit: Unit, backend: str, place: str) -> str:
    """Return the kind of source for a store of records.

    Raises:
        UnsupportedError: There is no such kind.
    """
    if backend not in _STORES:
        raise UnsupportedError(
            f"reads records from a store of kind {backend!r}, expected {' or '.join(_STORES)}; pack them "
            "again with: netweave pack SOURCE TARGET --to kvfile",
            place=unit.place(place),
        )
    return _STORES[backend]


def _records(unit: Unit, place: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return what holds the records, what it needs to be opened, and the order of records."""
    spec, kind = unit.spec, unit.spec["type"]
    if kind in _DATA:
        name, field = _DATA[kind]
        settings = {"path": spec[field]["path"]}
        skip = spec[field]["random_skip"]
    elif kind in {"kRecordInput", "kCSVInput"}:
        store = spec["store_conf"]
        settings = {"path": store["path"], "shape": list(store["shape"])}
        if kind == "kCSVInput":
            name = "textfile"
            settings |= {"separator": store["separator"], "has_label": store["has_label"]}
        else:
            name = _record_store(unit, store["backend"] or "kvfile", place)
            settings |= {"encoded": store["encoded"]}
        skip = store["random_skip"]
    else:
        name = {"kCharRNN": "characters"}.get(kind, "drawn")
        field = {"kCharRNN": "char_rnn_conf", "kDummy": "dummy_conf"}.get(kind, "rnn_dummy_conf")
        settings, skip = spec[field].to_json(), 0
    return name, settings, {"skip": skip} if skip else {}


def _transforms(unit: Unit, place: str, *, training: bool) -> list[dict[str, Any]]:
    """Return what a layer of a chain does to records, in order."""
    spec, kind = unit.spec, unit.spec["type"]
    if kind in {"kRecordInput", "kCSVInput"}:
        return _normalised(spec["store_conf"])
    if kind == "kMnist":
        return _mnist(unit, place)
    if kind not in {"kRGBImage", "kImagePreprocess"}:
        return []
    settings, steps = spec["rgbimage_conf"], []
    if settings["meanfile"]:
        steps.append({"kind": "subtract", "path": settings["meanfile"]})
    if crop := settings["cropsize"]:
        where = "random" if training else "top left"
        steps.append({"kind": "crop", "height": crop, "width": crop, "where": where})
    if settings["mirror"] and training:
        steps.append({"kind": "mirror"})
    if settings["scale"] != 1:
        steps.append({"kind": "scale", "factor": settings["scale"]})
    return steps


def _mnist(unit: Unit, place: str) -> list[dict[str, Any]]:
    """Return the normalization of ``mnist.cc``.

    Raises:
        UnsupportedError: Images would be resized or distorted.
    """
    settings = unit.spec["mnist_conf"]
    distortions = [name for name in _DISTORTIONS if settings[name]]
    if distortions:
        raise UnsupportedError(
            f"kMnist would distort images ({', '.join(distortions)}), which is not implemented; remove the "
            "settings, and pack images that are distorted already",
            place=unit.place(place),
        )
    scale, offset = settings["norm_a"], settings["norm_b"]
    steps: list[dict[str, Any]] = []
    if scale not in {0, 1}:
        steps.append({"kind": "scale", "factor": 1 / scale})
    if offset:
        steps.append({"kind": "subtract", "values": [offset]})
    return steps


def _normalised(store: Any) -> list[dict[str, Any]]:
    """Return the mean that is subtracted and the deviation that is divided by: a file's, or one number."""
    steps: list[dict[str, Any]] = []
    if "mean_file" in store:
        steps.append({"kind": "subtract", "path": store["mean_file"]})
    elif store["mean_value"]:
        steps.append({"kind": "subtract", "values": [store["mean_value"]]})
    if "std_file" in store:
        steps.append({"kind": "divide", "path": store["std_file"]})
    elif store["std_value"] not in {0, 1}:
        steps.append({"kind": "scale", "factor": 1 / store["std_value"]})
    return steps

"""From input layers to the sources of a Job: ``input_layer/*.cc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UnsupportedError
from netweave.job import DataSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.formats.singa.inputs import InputLayer
    from netweave.formats.singa.unroll import Unit

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
    found = []
    for chain in chains.values():
        outputs = [name for feed in chain for name in feed.inputs.read_by.get(feed.unit.name, ())]
        if outputs:
            found.append(_source(chain, tuple(dict.fromkeys(outputs)), training=training))
    return tuple(found)


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

"""Writing a net and its weights as two files, the old ones whole until the new ones are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UnsupportedError
from netweave.files import OutputFiles
from netweave.files.output_files import replacing_files, require_weights
from netweave.files.prototext_writer import format_text
from netweave.formats.caffe.schema import caffe_schema
from netweave.formats.caffe.writer.net import layers_of, named
from netweave.graph import known_shape
from netweave.graph.passes import (
    absorb_pads,
    absorb_scales,
    chain,
    channels_first,
    prune,
    see_through,
    specialise,
    to_inference,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.formats.caffe.writer.table import Blob, CaffeLayer
    from netweave.graph import Graph


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write ``NET.prototxt``, and ``NET.caffemodel`` beside it.

    The net is written as it predicts, with channels first: an input that the source has with channels last is
    one with channels first. Its input sizes are those that it was read with; of a batch that is left open, 1.
    """
    require_weights(graph, random_weights=random_weights)
    plain = _as_caffe_has_it(graph)
    shapes = _input_shapes(plain)
    layers = named(layers_of(plain), plain)
    shared = _shared(layers)
    net: dict[str, Any] = {
        "name": graph.name,
        "layer": [
            *(_input(name, shape) for name, shape in shapes.items()),
            *(_entry(*each, shared) for each in layers),
        ],
    }
    weights = path.with_suffix(".caffemodel")
    text = format_text(caffe_schema(), "NetParameter", net)
    blobs = {name: [_blob(blob) for blob in layer.blobs] for name, layer in layers}
    stored = [entry | {"blobs": blobs.get(entry["name"], [])} for entry in net["layer"]]
    with replacing_files(path) as folder:
        (folder / path.name).write_text(text)
        (folder / weights.name).write_bytes(
            caffe_schema().encode("NetParameter", {"name": graph.name, "layer": stored})
        )
    return OutputFiles(path, weights, inputs=None, one_size=True)


def _as_caffe_has_it(graph: Graph) -> Graph:
    """Return a net as it predicts, with explicit pads, which are those of the layers behind them."""
    # a Crop of Caffe's own asks for the sizes of a value, and stays one
    scaffold = [] if graph.format == "caffe" else [see_through]
    plain = chain(to_inference, *scaffold, absorb_scales, prune)(graph)
    return chain(channels_first, absorb_pads, prune)(specialise(plain))


def _input_shapes(graph: Graph) -> dict[str, list[int]]:
    shapes, open_inputs = {}, []
    for value in graph.inputs:
        name, known = value.name or "", list(known_shape(value) or ())
        declared = graph.declared.get(name) or known
        if known and known[0] is None:
            known[0] = (declared[0] if declared else None) or 1
        if not known or None in known:
            open_inputs.append(name)
        shapes[name] = [size or 0 for size in known]
    if open_inputs:
        raise UnsupportedError(
            f"cannot be written as a net of Caffe's: sizes of {', '.join(map(repr, open_inputs))} are open; "
            f"give them (--input-shape {open_inputs[0]}={_example(graph, open_inputs[0])}, "
            f"or input_shapes of load)",
            place=graph.files[0] if graph.files else graph.name,
            open_inputs=tuple(open_inputs),
        )
    return shapes


def _example(graph: Graph, name: str) -> str:
    """Return sizes that an input may be given: those that are known, and of an image what images have."""
    [value] = [value for value in graph.inputs if value.name == name]
    known = list(known_shape(value) or [None] * 4)
    usual = [1, 3, 224, 224] if len(known) == 4 else [1] * len(known)
    return "x".join(str(size or example) for size, example in zip(known, usual, strict=True))


def _input(name: str, shape: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "type": "Input", "top": [name], "input_param": {"shape": [{"dim": list(shape)}]}}


def _shared(layers: Sequence[tuple[str, CaffeLayer]]) -> dict[str, str]:
    """Return names for the stored values that several layers have, by their name in the net."""
    owners: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, layer in layers:
        for number, blob in enumerate(layer.blobs):
            if blob.source is None:
                continue
            if blob.source in owners:
                found[blob.source] = owners[blob.source]
            owners.setdefault(blob.source, f"{name}/{number}")
    return found


def _entry(name: str, layer: CaffeLayer, shared: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": layer.type}
    found["bottom"], found["top"] = list(layer.bottoms), list(layer.tops)
    names = [shared.get(blob.source or "") for blob in layer.blobs]
    if layer.type != "BatchNorm" and any(names):
        found["param"] = [{"name": each} if each else {} for each in names]
    return found | layer.settings


def _blob(blob: Blob) -> dict[str, Any]:
    array = np.asarray(blob.array(), np.float32)
    return {"shape": {"dim": list(array.shape)}, "data": array.reshape(-1)}

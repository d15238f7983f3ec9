"""Writer of Caffe's nets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import UnsupportedError
from netweave.files import OutputFiles
from netweave.files.node_writer import NotWritableNodes
from netweave.files.output_files import replacing_files, require_weights
from netweave.files.prototext import format_text
from netweave.formats.caffe.schema import caffe_schema
from netweave.formats.caffe.writer.operators import TABLE
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode
from netweave.graph import Graph, known_shape
from netweave.graph.naming import take_name
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

# Layers that Caffe has as one are joined: a bias behind a convolution, a shift behind a Scale.

_PARAMETERS = {
    "Convolution": "convolution_param",
    "Deconvolution": "convolution_param",
    "InnerProduct": "inner_product_param",
    "Scale": "scale_param",
}
"""Types that may have a bias of their own, and where they say so."""


def joined(layers: Sequence[CaffeLayer], graph: Graph) -> list[CaffeLayer]:
    """Return the layers with each stored Bias in the layer before it, or as a Scale by 1 with a shift.

    OpenCV has no Bias with stored numbers; a Scale it has.
    """
    reads = Counter(name for layer in layers for name in layer.bottoms)
    reads.update(value.name or "" for value in graph.outputs)
    kept: dict[str, CaffeLayer] = {}  # by the value that they make first
    for layer in layers:
        if layer.type != "Bias" or not layer.blobs:
            kept[layer.tops[0]] = layer
            continue
        before = kept.get(layer.bottoms[0])
        if before is not None and reads[layer.bottoms[0]] == 1 and _can_take(before, layer):
            kept[layer.tops[0]] = _with_bias(kept.pop(layer.bottoms[0]), layer)
        else:
            kept[layer.tops[0]] = _as_scale(layer)
    return list(kept.values())


def _can_take(layer: CaffeLayer, bias: CaffeLayer) -> bool:
    parameter = _PARAMETERS.get(layer.type)
    if parameter is None or len(layer.bottoms) != 1:
        return False
    own, axes = layer.settings.get(parameter, {}), bias.settings["bias_param"]
    if layer.type == "Scale":
        return {name: own[name] for name in ("axis", "num_axes") if name in own} == axes and not own.get(
            "bias_term"
        )
    axis = own.get("axis", 1) if layer.type == "InnerProduct" else 1
    return own.get("bias_term") is False and axes == ({} if axis == 1 else {"axis": axis})


def _with_bias(layer: CaffeLayer, bias: CaffeLayer) -> CaffeLayer:
    parameter = _PARAMETERS[layer.type]
    settings: dict[str, Any] = dict(layer.settings.get(parameter, {}))
    if layer.type == "Scale":
        settings["bias_term"] = True
    else:
        del settings["bias_term"]
    return replace(
        layer,
        tops=bias.tops,
        settings={parameter: settings},
        blobs=(*layer.blobs, *bias.blobs),
        sources=tuple(dict.fromkeys(layer.sources + bias.sources)),
    )


def _as_scale(layer: CaffeLayer) -> CaffeLayer:
    shift: Blob = layer.blobs[0]
    ones = Blob(lambda: np.ones_like(shift.array()))
    settings = {**layer.settings["bias_param"], "bias_term": True}
    return replace(layer, type="Scale", settings={"scale_param": settings}, blobs=(ones, shift))


IN_PLACE = frozenset(
    {
        "AbsVal",
        "BatchNorm",
        "Bias",
        "BNLL",
        "ELU",
        "Exp",
        "Log",
        "Power",
        "PReLU",
        "ReLU",
        "Scale",
        "Sigmoid",
        "TanH",
    }
)
"""Types that may write over what they read, as people let them."""


def layers_of(graph: Graph) -> list[CaffeLayer]:
    """Return the layers of a net in the form in which it predicts; only what an output needs is written.

    Raises:
        UnsupportedError: Some nodes cannot be written; each kind is named once, with the reason.
    """
    not_writable = NotWritableNodes(graph, "a net of Caffe's")
    needed = {value.name for value in graph.outputs}
    groups: list[list[CaffeLayer]] = []
    for node in reversed(graph.nodes):
        if not any(value.name in needed for value in node.outputs):
            continue
        if not TABLE.has(node.op_type, node.domain):  # examine its inputs too, so that one error names all
            needed.update(value.name for value in node.inputs if value is not None)
        with not_writable.collecting(node):
            layers = TABLE.find(node)(CaffeNode(node, graph))
            needed.update(name for layer in layers for name in layer.bottoms)
            groups.append(layers)
    not_writable.check()
    return joined([layer for layers in reversed(groups) for layer in layers], graph)


def named(layers: Sequence[CaffeLayer], graph: Graph) -> list[tuple[str, CaffeLayer]]:
    """Return layers with their names, whose values are blobs with the names that they get in the file.

    A blob is called like the layer that makes it, an output like the net's; layers that may do so write over
    what they read. What nothing reads goes into a Silence, since it would be an output.
    """
    return _Naming(layers, graph).done()


class _Naming:
    def __init__(self, layers: Sequence[CaffeLayer], graph: Graph) -> None:
        self._layers = layers
        self._inputs = [value.name or "" for value in graph.inputs]
        self._outputs = {value.name or "" for value in graph.outputs}
        self._reads = Counter(name for layer in layers for name in layer.bottoms)
        self._blobs = {name: name for name in self._inputs}
        self._taken = {*self._inputs, *self._outputs}
        self._used: set[str] = set(self._inputs)

    def done(self) -> list[tuple[str, CaffeLayer]]:
        """Return the layers with names, in their order."""
        entries: list[tuple[str, CaffeLayer]] = []
        for layer in self._layers:
            name = self._layer_name(layer)
            bottoms = tuple(self._blobs[value] for value in layer.bottoms)
            read_on = [top for top in layer.tops if top in self._outputs and self._reads[top]]
            tops = tuple(self._top(layer, index, name) for index in range(len(layer.tops)))
            entries.append((name, replace(layer, bottoms=bottoms, tops=tops)))
            entries += [self._split(top) for top in read_on]
            unread = [
                blob
                for value, blob in zip(layer.tops, tops, strict=True)
                if not self._reads[value] and value not in self._outputs
            ]
            if unread:
                silence = CaffeLayer("Silence", tuple(unread), ())
                entries.append((take_name(f"{name}/unused", self._used), silence))
        return entries

    def _layer_name(self, layer: CaffeLayer) -> str:
        """Return the first name of the source's layers that is free, or one made of it and the type."""
        for source in layer.sources:
            if source not in self._used:
                self._used.add(source)
                return source
        stem = f"{layer.sources[-1]}/{layer.type.lower()}" if layer.sources else layer.tops[0]
        return take_name(stem, self._used)

    def _top(self, layer: CaffeLayer, index: int, name: str) -> str:
        value = layer.tops[index]
        if value in self._outputs:
            blob = value if not self._reads[value] else take_name(f"{value}/read", self._taken)
        elif self._writes_over(layer):
            blob = self._blobs[layer.bottoms[0]]
        else:
            blob = take_name(name if len(layer.tops) == 1 else value, self._taken)
        self._blobs[value] = blob
        return blob

    def _writes_over(self, layer: CaffeLayer) -> bool:
        source = layer.bottoms[0]
        kept = source in self._outputs or source in self._inputs
        return layer.type in IN_PLACE and len(layer.bottoms) == 1 and self._reads[source] == 1 and not kept

    def _split(self, output: str) -> tuple[str, CaffeLayer]:
        """Return a layer that gives an output under its name, which another layer reads as well."""
        name = take_name(f"{output}/output", self._used)
        return name, CaffeLayer("Split", (self._blobs[output],), (output,))


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
    shared: dict[str, str] = {}
    for name, layer in layers:
        for number, blob in enumerate(layer.blobs):
            if blob.source is None:
                continue
            if blob.source in owners:
                shared[blob.source] = owners[blob.source]
            owners.setdefault(blob.source, f"{name}/{number}")
    return shared


def _entry(name: str, layer: CaffeLayer, shared: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "type": layer.type}
    entry["bottom"], entry["top"] = list(layer.bottoms), list(layer.tops)
    names = [shared.get(blob.source or "") for blob in layer.blobs]
    if layer.type != "BatchNorm" and any(names):
        entry["param"] = [{"name": each} if each else {} for each in names]
    return entry | layer.settings


def _blob(blob: Blob) -> dict[str, Any]:
    array = np.asarray(blob.array(), np.float32)
    return {"shape": {"dim": list(array.shape)}, "data": array.reshape(-1)}

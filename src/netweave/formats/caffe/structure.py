"""Caffe nets with layers that Netweave does not read, to be looked at."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from netweave.errors import SourceError
from netweave.files import Source
from netweave.formats.caffe.context import CaffeLayer
from netweave.formats.caffe.inputs import NetInput, brings_data, find_inputs
from netweave.formats.caffe.layers import LAYERS
from netweave.formats.caffe.net import Wired, Wiring, entry, included, net_state, wire
from netweave.formats.caffe.parameters import Blobs
from netweave.formats.caffe.python_code import type_of
from netweave.formats.caffe.reader import parse_net
from netweave.graph import Graph, GraphBuilder, Layer

DOMAIN = "caffe"
"""Domain of nodes that stand for layers as the file has them."""


def read_structure(source: Source) -> Graph:
    """Read a Caffe net with a node of its type for each layer that is not read, or stands behind one.

    Layers before them have operators and sizes. Stored arrays are not read, and nothing can be computed
    with such a net.

    Raises:
        SourceError: The file is damaged.
    """
    place = str(source.net)
    net = parse_net(source.net)
    state = net_state(net, source)
    wiring = wire(included(net, state, place=place), of=net["layer"], place=place)
    inputs = _inputs(wiring, source)
    batch = next((declared.shape[0] for declared in inputs.values() if declared.batch), None)
    builder = GraphBuilder(net["name"] or source.net.stem, format="caffe", files=[place])
    blobs = Blobs(builder, None, net=place)
    values: dict[str, ir.Value] = {}
    unknown: set[str] = set()
    for wired in wiring.layers:
        layer = entry(builder, wired, place)
        bottoms = [values[name] for name in wired.bottoms]
        with builder.layer(layer):
            if brings_data(wired.spec) and inputs.keys() >= set(wired.tops):
                tops = [
                    builder.input(name, inputs[name].shape, batch=inputs[name].batch) for name in wired.tops
                ]
            else:
                ctx = CaffeLayer(
                    builder,
                    place=layer.place,
                    layer=layer,
                    spec=wired.spec,
                    bottoms=bottoms,
                    tops=wired.tops,
                    blobs=blobs,
                    phase=state.phase,
                    batch=batch,
                )
                known = _known(ctx)
                if type_of(wired.spec) not in LAYERS and not brings_data(wired.spec):
                    unknown.add(str(wired.spec["type"]))
                tops = known if known is not None else _as_it_is(builder, wired, layer, values)
        values.update(zip(wired.tops, tops, strict=False))
        builder.record(
            layer, inputs=bottoms, outputs=tops[: len(wired.tops)], parameters=blobs.keys(layer.key)
        )
    outputs = [values[name] for name in wiring.outputs]
    graph = builder.finish(outputs)
    graph.unknown = tuple(sorted(unknown))
    return graph


def _inputs(wiring: Wiring, source: Source) -> dict[str, NetInput]:
    """Return the inputs of a net; none if sizes of some are in its data, which is elsewhere."""
    try:
        return find_inputs(wiring.layers, source, None)
    except SourceError:
        return {}


def _known(ctx: CaffeLayer) -> list[ir.Value] | None:
    """Return what a layer makes that is read and of which all inputs have sizes; None for others."""
    reader = LAYERS.get(type_of(ctx.spec))
    if reader is None or brings_data(ctx.spec) or any(value.shape is None for value in ctx.bottoms):
        return None
    try:
        tops = list(reader.read(ctx))
    except SourceError:
        return None
    return tops if len(tops) >= len(ctx.tops) else None


def _as_it_is(
    builder: GraphBuilder, wired: Wired, layer: Layer, values: Mapping[str, ir.Value]
) -> list[ir.Value]:
    bottoms = [values[name] for name in wired.bottoms]
    return list(builder.add_opaque(layer.type, bottoms, domain=DOMAIN, outputs=wired.tops))

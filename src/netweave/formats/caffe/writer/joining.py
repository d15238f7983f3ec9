"""Joining layers that Caffe has as one: a bias behind a convolution, a shift behind a Scale."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.caffe.writer.layer import Blob, CaffeLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph

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

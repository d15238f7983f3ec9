"""The end of an SSD of Caffe's own, by its layers: what the reader made of one is that one again.

Elsewhere there is no such layer to take: priors are stored numbers, which no layer of Caffe holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.layer import CaffeLayer
from netweave.formats.caffe.writer.table import Call, written
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.graph import Layer

_BOTTOMS = 3
"""Of DetectionOutput: locations, scores, priors."""


@written("DetectionOutput", domain=DOMAIN)
def detection_output(call: Call) -> list[CaffeLayer]:
    """The layer that the node is of, from what enters its nodes: they decode the boxes."""
    layer = _source(call, "DetectionOutput")
    if layer is None:
        raise Refused("it is of no DetectionOutput of Caffe's, whose decoding is in the layer")
    own = [node for node in call.graph.nodes if layer in call.graph.layers_of(node)]
    made = {value for node in own for value in node.outputs}
    read = [value for node in own for value in node.inputs if value is not None and value not in made]
    names = list(dict.fromkeys(value.name or "" for value in read if value.const_value is None))
    if len(names) != _BOTTOMS:
        raise Refused(f"{len(names)} values enter its layer, expected locations, scores and priors")
    parameter = "detection_output_param"
    return [call.layer("DetectionOutput", names, {parameter: layer.settings[parameter]})]


def prior_boxes(call: Call, index: int) -> CaffeLayer | None:
    """Return the PriorBox that a stored input of a Concat is of, None if it is of none."""
    joining = _source(call, "Concat")
    values, inputs = call.graph.values(), call.graph.inputs
    if joining is None or index >= len(joining.inputs):
        return None
    top = joining.inputs[index]
    found = [layer for layer in call.graph.layers.values() if top in layer.outputs]
    if len(found) != 1 or found[0].type != "PriorBox":
        return None
    bottoms = found[0].inputs
    if any(bottom not in values and bottom not in {value.name for value in inputs} for bottom in bottoms):
        return None
    given = {"clip": False, **found[0].settings["prior_box_param"]}  # OpenCV clips where the file is silent
    return CaffeLayer(
        "PriorBox", tuple(bottoms), (top,), {"prior_box_param": given}, sources=(found[0].name,)
    )


def _source(call: Call, kind: str) -> Layer | None:
    layers = call.graph.layers_of(call.node) if call.graph.format == "caffe" else []
    return layers[0] if len(layers) == 1 and layers[0].type == kind else None

"""The end of an SSD of Caffe's own, by its layers: what the reader made of one is that one again.

Elsewhere there is no such layer to take: priors are stored numbers, which no layer of Caffe holds.
"""

from __future__ import annotations

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.table import CaffeLayer, CaffeNode, writes
from netweave.graph import DOMAIN, Layer

_BOTTOMS = 3
"""Of DetectionOutput: locations, scores, priors."""


@writes("DetectionOutput", domain=DOMAIN)
def detection_output(node: CaffeNode) -> list[CaffeLayer]:
    """The layer that the node is of, from what enters its nodes: they decode the boxes."""
    layer = _source(node, "DetectionOutput")
    if layer is None:
        raise NotWritable("it is of no DetectionOutput of Caffe's, whose decoding is in the layer")
    parts = [part for part in node.graph.nodes if layer in node.graph.layers_of(part)]
    inner = {value for part in parts for value in part.outputs}
    read = [value for part in parts for value in part.inputs if value is not None and value not in inner]
    names = list(dict.fromkeys(value.name or "" for value in read if value.const_value is None))
    if len(names) != _BOTTOMS:
        raise NotWritable(f"{len(names)} values enter its layer, expected locations, scores and priors")
    parameter = "detection_output_param"
    return [node.layer("DetectionOutput", names, {parameter: layer.settings[parameter]})]


def prior_boxes(node: CaffeNode, index: int) -> CaffeLayer | None:
    """Return the PriorBox that a stored input of a Concat is of, None if it is of none."""
    joining = _source(node, "Concat")
    values, inputs = node.graph.values(), node.graph.inputs
    if joining is None or index >= len(joining.inputs):
        return None
    top = joining.inputs[index]
    makers = [layer for layer in node.graph.layers.values() if top in layer.outputs]
    if len(makers) != 1 or makers[0].type != "PriorBox":
        return None
    bottoms = makers[0].inputs
    if any(bottom not in values and bottom not in {value.name for value in inputs} for bottom in bottoms):
        return None
    given = {"clip": False, **makers[0].settings["prior_box_param"]}  # OpenCV clips where the file is silent
    given.pop("is_dense", None)  # ours: the filters tell it again
    return CaffeLayer(
        "PriorBox", tuple(bottoms), (top,), {"prior_box_param": given}, sources=(makers[0].name,)
    )


def _source(node: CaffeNode, kind: str) -> Layer | None:
    layers = node.graph.layers_of(node.ir_node) if node.graph.format == "caffe" else []
    return layers[0] if len(layers) == 1 and layers[0].type == kind else None

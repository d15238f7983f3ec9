"""Operators that move elements, and the end of an SSD of Caffe's own.

What the reader made of an SSD's last layer is that layer again. Elsewhere there is no such layer to take:
priors are stored numbers, which no layer of Caffe holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.files.node_writer import NotWritable, producer_of
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode, per_axis, writes
from netweave.formats.lowering.nodes.arrays import permutation, repeats_elements, reshaped_sizes, slice_ranges
from netweave.graph import DOMAIN, Layer, known_shape


@writes("Concat")
def concat(node: CaffeNode) -> list[CaffeLayer]:
    """After one another along an axis."""
    axis = node.axis()
    names, layers = [], []
    for index in range(node.num_inputs):
        priors = prior_boxes(node, index) if node.is_stored(index) else None
        layers += [priors] if priors else []
        names.append(priors.tops[0] if priors else node.name(index))
    return [*layers, node.layer("Concat", names, {} if axis == 1 else {"concat_param": {"axis": axis}})]


@writes("Split")
def split(node: CaffeNode) -> list[CaffeLayer]:
    """Cut along an axis."""
    axis = node.axis()
    tops = tuple(value.name or "" for value in node.outputs)
    points = [int(point) for point in np.cumsum(node.ints(1))[:-1]] if node.has(1) else []
    settings: dict[str, Any] = {} if axis == 1 else {"axis": axis}
    settings |= {"slice_point": points} if points else {}
    given = {"slice_param": settings} if settings else {}
    return [CaffeLayer("Slice", (node.name(0),), tops, given, sources=node.layers)]


@writes("Transpose")
def transpose(node: CaffeNode) -> list[CaffeLayer]:
    """Axes in another order: a layer of the SSD branch, which Caffe 1.0 has not."""
    return node.chain(("Permute", {"permute_param": {"order": permutation(node)}}))


@writes("Slice")
def slice_(node: CaffeNode) -> list[CaffeLayer]:
    """A part along some axes; where its sizes are those of another value, a Crop."""
    if node.value(2).producer() is not None:
        return [_crop(node)]
    shape, ranges = node.shape(0), slice_ranges(node)
    if any(step != 1 for *_, step in ranges):
        raise NotWritable("it takes steps, and Caffe's Slice takes none")
    value, layers = node.name(0), []
    parts = [(axis, *_range(start, end, shape[axis])) for axis, start, end, _ in ranges]
    parts = [part for part in parts if part[1:] != (0, shape[part[0]])]
    for number, (axis, start, end) in enumerate(parts, start=1):
        kept = node.output if number == len(parts) else node.inner()
        layers.append(cut(node, value, kept, axis=axis, start=start, end=end, size=shape[axis]))
        value = kept
    return layers or node.chain(("Split", {}))


def _range(start: int, end: int, size: int | None) -> tuple[int, int]:
    if size is None:
        raise NotWritable("it cuts an axis whose size is not known; give the input's sizes")
    first, last, _ = slice(start, end).indices(size)
    return first, last


def cut(
    node: CaffeNode, value: str, kept: str, *, axis: int, start: int, end: int, size: int | None
) -> CaffeLayer:
    """Return a Slice that keeps a range of an axis; nothing reads its other tops.

    Args:
        node: The node that it is a part of.
        value: Name of the value that is cut.
        kept: Name of the part.
        axis: The axis, from 0.
        start: First element.
        end: Element behind the last.
        size: Elements of the axis; None if there are surely more than ``end``.
    """
    points = ([start] if start else []) + ([end] if end != size else [])
    tops = [f"{kept}/before"] * bool(start) + [kept] + [f"{kept}/behind"] * (end != size)
    settings: dict[str, Any] = {} if axis == 1 else {"axis": axis}
    return CaffeLayer(
        "Slice", (value,), tuple(tops), {"slice_param": settings | {"slice_point": points}}, (), node.layers
    )


def _crop(node: CaffeNode) -> CaffeLayer:
    """Return a part of the sizes of another value, as Caffe's reader writes it: ``Shape`` plus offsets."""
    starts, ends = node.ints(1), node.value(2).producer()
    if ends is not None and ends.op_type == "Add" and not ends.domain:
        ends = producer_of(ends.inputs[0])
    other = ends.inputs[0] if ends is not None and ends.op_type == "Shape" and not ends.domain else None
    rank = node.rank(0)
    axes = node.ints(3) if node.has(3) else []
    if ends is None or other is None or axes != list(range(ends.attributes.get_int("start", 0), rank)):
        raise NotWritable("where it ends is computed")
    settings: dict[str, Any] = {} if axes[0] == 2 else {"axis": axes[0]}
    if any(starts):
        settings["offset"] = [starts[0]] if len(set(starts)) == 1 else starts
    return node.layer("Crop", [node.name(0), other.name or ""], {"crop_param": settings} if settings else {})


@writes("Flatten")
def flatten(node: CaffeNode) -> list[CaffeLayer]:
    """All axes from one on as one."""
    axis = node.get("axis")
    if axis != 1:
        raise NotWritable(f"it flattens from axis {axis} on")
    return node.chain(("Flatten", {}))


@writes("Reshape", "Squeeze", "Unsqueeze")
def reshape(node: CaffeNode) -> list[CaffeLayer]:
    """Other sizes; the first axis stays as it is if it is the batch, so that its size stays open."""
    dims = reshaped_sizes(node)
    if len(dims) == 2 and dims[0] == 0 and node.rank(0) > 2:
        return node.chain(("Flatten", {}))
    return node.chain(("Reshape", {"reshape_param": {"shape": {"dim": dims}}}))


@writes("Pad")
def pad(node: CaffeNode) -> list[CaffeLayer]:
    """Zeros around: a convolution that does nothing else, one number for each channel."""
    rank, pads = node.rank(0), node.ints(1)
    channels = node.shape(0)[1]
    value = float(node.constant(2).reshape(-1)[0]) if node.has(2) else 0.0
    begin, end = pads[2:rank], pads[rank + 2 :]
    outer = [*pads[:2], *pads[rank : rank + 2]]
    if node.get("mode") != "constant" or value or node.has(3) or any(outer) or rank < 3:
        raise NotWritable(
            "Caffe pads with zeros only, height and width alike; write the padding into the layer behind it"
        )
    if min(pads) < 0 or channels is None:
        raise NotWritable("its padding is less than 0, or its channels are not known")
    sizes = [max(pair) for pair in zip(begin, end, strict=True)]
    zeros = [(size - first, size - last) for size, first, last in zip(sizes, begin, end, strict=True)]
    settings = {"num_output": channels, "bias_term": False} | per_axis("pad", sizes, default=0)
    settings |= per_axis("kernel_size", [1 + sum(more) for more in zeros], default=None)
    one = np.ones((channels, 1, *[1] * len(sizes)), np.float32)
    blob = Blob(lambda: np.pad(one, [(0, 0), (0, 0), *zeros]))
    return [
        node.layer(
            "Convolution", [node.name(0)], {"convolution_param": settings | {"group": channels}}, blobs=[blob]
        )
    ]


@writes("Resize")
def resize(node: CaffeNode) -> list[CaffeLayer]:
    """Nearest by whole factors: a Deconvolution that repeats each element."""
    old, new = node.shape(0), known_shape(node.outputs[0])
    if node.get("mode") != "nearest" or len(old) != 4 or new is None or old[1] is None:
        raise NotWritable(f"Caffe has no resizing by {node.get('mode', 'nearest')!r}")
    factors = _factors(node, old, new)
    settings: dict[str, Any] = {"num_output": old[1], "bias_term": False, "group": old[1]}
    settings |= per_axis("kernel_size", factors, default=None) | per_axis("stride", factors, default=1)
    ones = Blob(lambda: np.ones((old[1] or 0, 1, *factors), np.float32))
    return [node.layer("Deconvolution", [node.name(0)], {"convolution_param": settings}, blobs=[ones])]


def _factors(node: CaffeNode, old: tuple[int | None, ...], new: tuple[int | None, ...]) -> list[int]:
    """Return the whole factors of a resizing of height and width that repeats each element."""
    if node.has(2) and node.is_stored(2) and node.constant(2).size == 4:
        given = [float(factor) for factor in node.constant(2)[2:]]
    elif None not in old[2:] and None not in new[2:]:
        given = [(b or 0) / (a or 1) for a, b in zip(old[2:], new[2:], strict=True)]
    else:
        raise NotWritable("its size is computed")
    rule = node.get("coordinate_transformation_mode")
    nearest = node.get("nearest_mode")
    if any(factor != int(factor) or factor < 1 for factor in given) or not repeats_elements(node):
        raise NotWritable(f"Caffe repeats by whole factors only, found {given} with {rule} and {nearest}")
    return [int(factor) for factor in given]


@writes("Tile")
def tile(node: CaffeNode) -> list[CaffeLayer]:
    """Several times after one another along an axis, one layer for each."""
    steps = [
        ("Tile", {"tile_param": {"axis": axis, "tiles": count}})
        for axis, count in enumerate(node.ints(1))
        if count != 1
    ]
    return node.chain(*(steps or [("Split", {})]))


_BOTTOMS = 3
"""Inputs of DetectionOutput: locations, scores, priors."""


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

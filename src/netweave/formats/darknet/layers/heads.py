"""Heads of detectors: what the layers give out when they do not train (yolo_layer.c, region_layer.c).

The outputs are those of Darknet's layers, box after box as channels: offsets and sizes of a box, whether
there is an object, one number for each class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.darknet.call import Call, layer

if TYPE_CHECKING:
    import onnx_ir as ir


@layer("yolo")
def yolo(call: Call) -> ir.Value:
    """For each anchor in ``mask``: logistic x, y, object and classes; raw width and height (v3, v4).

    ``scale_x_y`` stretches x and y about 1/2; with ``new_coords`` nothing goes through the logistic.
    """
    section = call.section
    anchors = len(section.wholes("mask")) or section.whole("num", 1, least=1)
    classes = section.whole("classes", 20, least=1)
    x = call.input
    _check_channels(call, x, anchors * (5 + classes))
    is_raw = section.whole("new_coords", 0) != 0
    stretch = section.number("scale_x_y", 1.0)
    if is_raw and stretch == 1.0:
        return x
    pieces: list[ir.Value] = []
    for centre, extent, rest in _anchors(call, x, anchors, classes):
        place = centre if is_raw else call.add("Sigmoid", [centre])
        pieces += [_stretched(call, place, stretch), extent, rest if is_raw else call.add("Sigmoid", [rest])]
    return call.add("Concat", pieces, {"axis": 1})


@layer("Gaussian_yolo")
def gaussian_yolo(call: Call) -> ir.Value:
    """For each anchor x, y, width and height, each with how unsure it is, then object and classes.

    All but width and height go through the logistic; ``scale_x_y`` stretches x and y (gaussian_yolo_layer.c).
    """
    section = call.section
    anchors = len(section.wholes("mask")) or section.whole("num", 1, least=1)
    classes = section.whole("classes", 20, least=1)
    x = call.input
    channels = call.image(x)[0]
    if channels != anchors * (9 + classes):
        wanted = anchors * (9 + classes)
        raise call.wrong_shape(f"{channels} channels come in, anchors times (9 + classes) are {wanted}")
    stretch = section.number("scale_x_y", 1.0)
    pieces: list[ir.Value] = []
    sizes = [1, 1, 1, 1, 1, 1, 1, 2 + classes]
    parts = call.split(x, sizes * anchors, axis=1)
    for number, part in enumerate(parts):
        place = number % len(sizes)
        if place in {4, 6}:  # width and height
            pieces.append(part)
            continue
        made = call.add("Sigmoid", [part])
        pieces.append(_stretched(call, made, stretch) if place in {0, 2} else made)
    return call.add("Concat", pieces, {"axis": 1})


@layer("region")
def region(call: Call) -> ir.Value:
    """For each anchor: logistic x, y and object, raw width and height, classes by softmax (v2)."""
    section = call.section
    if section.has("tree"):
        raise call.refuse("a softmax over a tree of classes (YOLO9000) is not read")
    call.refuse_if_set("background")
    if section.whole("coords", 4) != 4:
        raise call.refuse("coords other than 4 are not read")
    anchors = section.whole("num", 1, least=1)
    classes = section.whole("classes", 20, least=1)
    x = call.input
    _check_channels(call, x, anchors * (5 + classes))
    is_softmax = section.whole("softmax", 0) != 0
    pieces: list[ir.Value] = []
    for centre, extent, rest in _anchors(call, x, anchors, classes):
        seen, kinds = call.split(rest, [1, classes], axis=1)
        kinds = call.add("Softmax", [kinds], {"axis": 1}) if is_softmax else call.add("Sigmoid", [kinds])
        pieces += [call.add("Sigmoid", [centre]), extent, call.add("Sigmoid", [seen]), kinds]
    return call.add("Concat", pieces, {"axis": 1})


@layer("detection")
def detection(call: Call) -> ir.Value:
    """The row of a dense layer: classes of each place, then objects, then boxes (v1)."""
    section = call.section
    side = section.whole("side", 7, least=1)
    classes = section.whole("classes", 1, least=1)
    boxes = section.whole("num", 1, least=1)
    rows = call.rows(call.input)
    wanted = side * side * (classes + boxes * (1 + section.whole("coords", 1, least=1)))
    assert rows.shape is not None
    if rows.shape[1] != wanted:
        raise call.wrong_shape(
            f"{rows.shape[1]} numbers come in, side, classes, num and coords make {wanted}"
        )
    if not section.whole("softmax", 0):
        return rows
    places = side * side
    kinds, rest = call.split(rows, [places * classes, wanted - places * classes], axis=1)
    parts = call.add("Reshape", [kinds, call.wholes([0, places, classes])])
    kinds = call.add("Flatten", [call.add("Softmax", [parts], {"axis": 2})], {"axis": 1})
    return call.add("Concat", [kinds, rest], {"axis": 1})


def _stretched(call: Call, place: ir.Value, stretch: float) -> ir.Value:
    """Return places within a cell, stretched about its middle."""
    if stretch == 1.0:
        return place
    scaled = call.add("Mul", [place, call.constant(stretch)])
    return call.add("Sub", [scaled, call.constant(0.5 * (stretch - 1))])


def _check_channels(call: Call, x: ir.Value, wanted: int) -> None:
    channels = call.image(x)[0]
    if channels != wanted:
        raise call.wrong_shape(f"{channels} channels come in, anchors times (5 + classes) are {wanted}")


def _anchors(
    call: Call, x: ir.Value, anchors: int, classes: int
) -> list[tuple[ir.Value, ir.Value, ir.Value]]:
    """Return for each anchor: x and y, width and height, object and classes."""
    pieces = call.split(x, [2, 2, 1 + classes] * anchors, axis=1)
    return list(zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True))

"""Heads of detectors: what the layers give out when they do not train (yolo_layer.c, region_layer.c).

The outputs are those of Darknet's layers, box after box as channels: offsets and sizes of a box, whether
there is an object, one number for each class.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.darknet.losses import add_region_loss, add_yolo_loss, refuse_loss


@layer("yolo")
def yolo(ctx: DarknetLayer) -> ir.Value:
    """For each anchor in ``mask``: logistic x, y, object and classes; raw width and height (v3, v4).

    ``scale_x_y`` stretches x and y about 1/2; with ``new_coords`` nothing goes through the logistic.
    """
    is_raw, stretch = ctx.section.flag("new_coords"), ctx.section.number("scale_x_y", 1.0)
    sizes = [2, 2, 1 + ctx.section.integer("classes", 20, least=1)]
    parts = _split_anchors(ctx, sizes, len(ctx.section.integers("mask")))
    if ctx.training is not None:
        add_yolo_loss(ctx, ctx.training)
    if is_raw and stretch == 1.0:
        return ctx.x
    outputs: list[ir.Value] = []
    for centre, extent, rest in parts:
        logistic = [part if is_raw else ctx.add("Sigmoid", [part]) for part in (centre, rest)]
        outputs += [_stretched(ctx, logistic[0], stretch), extent, logistic[1]]
    return ctx.concat(outputs, 1)


@layer("Gaussian_yolo")
def gaussian_yolo(ctx: DarknetLayer) -> ir.Value:
    """For each anchor x, y, width and height, each with how unsure it is, then object and classes.

    All but width and height go through the logistic; ``scale_x_y`` stretches x and y (gaussian_yolo_layer.c).
    """
    refuse_loss(ctx)
    stretch = ctx.section.number("scale_x_y", 1.0)
    sizes = [1] * 7 + [2 + ctx.section.integer("classes", 20, least=1)]
    outputs: list[ir.Value] = []
    for x, x_deviation, y, y_deviation, width, width_deviation, height, rest in _split_anchors(
        ctx, sizes, len(ctx.section.integers("mask"))
    ):
        x, x_deviation, y, y_deviation, width_deviation, rest = (
            ctx.add("Sigmoid", [part]) for part in (x, x_deviation, y, y_deviation, width_deviation, rest)
        )
        centre = [_stretched(ctx, x, stretch), x_deviation, _stretched(ctx, y, stretch), y_deviation]
        outputs += [*centre, width, width_deviation, height, rest]
    return ctx.concat(outputs, 1)


@layer("region")
def region(ctx: DarknetLayer) -> ir.Value:
    """For each anchor: logistic x, y and object, raw width and height, classes by softmax (v2)."""
    section = ctx.section
    if section.has("tree"):
        raise ctx.unsupported("a softmax over a tree of classes (YOLO9000) is not supported")
    ctx.expect_unset("background")
    if section.integer("coords", 4) != 4:
        raise ctx.unsupported("coords other than 4 are not supported")
    if ctx.training is not None:
        add_region_loss(ctx, ctx.training)
    of_classes = "Softmax" if section.flag("softmax") else "Sigmoid"
    outputs: list[ir.Value] = []
    for centre, extent, is_object, classes in _split_anchors(
        ctx, [2, 2, 1, section.integer("classes", 20, least=1)]
    ):
        scores = ctx.add(of_classes, [classes], {"axis": 1 if of_classes == "Softmax" else None})
        outputs += [ctx.add("Sigmoid", [centre]), extent, ctx.add("Sigmoid", [is_object]), scores]
    return ctx.concat(outputs, 1)


@layer("detection")
def detection(ctx: DarknetLayer) -> ir.Value:
    """The row of a dense layer: classes of each place, then objects, then boxes (v1)."""
    refuse_loss(ctx)
    section = ctx.section
    side = section.integer("side", 7, least=1)
    classes, boxes, coords = (section.integer(name, 1, least=1) for name in ("classes", "num", "coords"))
    rows = ctx.flatten(ctx.x)
    count, places = ctx.size(1, rows), side * side
    wanted = places * (classes + boxes * (1 + coords))
    if count != wanted:
        raise ctx.shape_error(
            f"has an input of {count} elements, expected {wanted} for its side, classes, num and coords"
        )
    if not section.flag("softmax"):
        return rows
    scores, rest = ctx.split(rows, [places * classes, wanted - places * classes])
    by_place = ctx.add("Softmax", [ctx.reshape(scores, [0, places, classes])], {"axis": 2})
    return ctx.concat([ctx.flatten(by_place), rest], 1)


def _stretched(ctx: DarknetLayer, place: ir.Value, stretch: float) -> ir.Value:
    """Return places within a cell, stretched about its middle."""
    if stretch == 1.0:
        return place
    scaled = ctx.add("Mul", [place, ctx.constant(stretch)])
    return ctx.add("Sub", [scaled, ctx.constant(0.5 * (stretch - 1))])


def _split_anchors(
    ctx: DarknetLayer, sizes: Sequence[int], num_masked: int = 0
) -> list[tuple[ir.Value, ...]]:
    """Return the channels of each anchor in ranges of these sizes.

    Args:
        ctx: The layer.
        sizes: Channels of each range of one anchor.
        num_masked: How many anchors there are; 0 for as many as ``num`` says.
    """
    num_anchors = num_masked or ctx.section.integer("num", 1, least=1)
    channels, wanted = ctx.image()[0], num_anchors * sum(sizes)
    if channels != wanted:
        raise ctx.shape_error(
            f"has an input of {channels} channels, expected {wanted}: {num_anchors} anchors with "
            f"{sum(sizes)} numbers each"
        )
    ranges = ctx.split(ctx.x, [*sizes] * num_anchors)
    return list(zip(*(ranges[number :: len(sizes)] for number in range(len(sizes))), strict=True))

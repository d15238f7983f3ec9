"""Boxes chosen, and parts of images cut out by boxes (non_max_suppression_op.cc, crop_and_resize_op.cc)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.tensorflow.nodes import TensorFlowOperation, operator_reader
from netweave.formats.tensorflow.operands import Item


@operator_reader(
    "NonMaxSuppression",
    "NonMaxSuppressionV2",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
)
def non_max_suppression(ctx: TensorFlowOperation) -> list[Item]:
    """The numbers of the boxes that are kept, the best first; V4 tells how many, V5 their scores as well."""
    if ctx.op == "NonMaxSuppressionV5" and float(ctx.constant_input(5, "soft_nms_sigma")) != 0.0:
        raise ctx.unsupported("soft_nms_sigma other than 0 is not supported")
    boxes, scores = (ctx.source(x) for x in ctx.operands(0, 2))
    most = ctx.integers_input(2, "max_output_size")
    inputs = [
        ctx.unsqueeze(boxes, [0]),
        ctx.unsqueeze(scores, [0, 1]),
        ctx.integers(most),
        ctx.constant(_threshold(ctx), dtype=np.float32),
    ]
    if len(ctx.inputs) > 4:
        lowest = ctx.constant_input(4, "score_threshold").astype(np.float32).reshape(1)
        if np.isfinite(lowest[0]):
            inputs.append(ctx.constant(lowest, dtype=np.float32))
    rows = ctx.add("NonMaxSuppression", inputs)
    kept = ctx.add("Gather", [rows, ctx.constant(2, dtype=np.int64)], {"axis": 1})
    count = ctx.as_type(ctx.add("Size", [kept]), ir.DataType.INT32)
    chosen = [kept, ctx.add("Gather", [scores, kept], {"axis": 0})]
    if ctx.attribute("pad_to_max_output_size", False):
        chosen = [_filled(ctx, value, most[0]) for value in chosen]
    numbers = ctx.as_type(chosen[0], ir.DataType.INT32)
    if ctx.op == "NonMaxSuppressionV4":
        return [numbers, count]
    return [numbers, Tensor(chosen[1]), count] if ctx.op == "NonMaxSuppressionV5" else [numbers]


def _threshold(ctx: TensorFlowOperation) -> np.ndarray:
    if ctx.op == "NonMaxSuppression":
        return np.asarray([ctx.number("iou_threshold", 0.5)], np.float32)
    return ctx.constant_input(3, "iou_threshold").astype(np.float32).reshape(1)


def _filled(ctx: TensorFlowOperation, value: ir.Value, size: int) -> ir.Value:
    """Return a list with zeros behind it, so that it is of this length."""
    missing = ctx.add("Sub", [ctx.integers([size]), ctx.add("Shape", [value])])
    ends = ctx.add("Concat", [ctx.integers([0]), missing], {"axis": 0})
    return ctx.add("Pad", [value, ends])


@operator_reader("CropAndResize")
def crop_and_resize(ctx: TensorFlowOperation) -> Tensor:
    """Parts of images by boxes (y1, x1, y2, x2) from 0 to 1, all of one size, read between the pixels."""
    if ctx.string("method", "bilinear") != "bilinear":
        raise ctx.unsupported(f"method={ctx.string('method', '')!r} is not supported, expected bilinear")
    images, boxes, owners = ctx.operands(0, 3)
    sides = ctx.integers_input(3, "crop_size")
    corners = ctx.add_many(
        "Split",
        [ctx.source(boxes), ctx.integers([1, 1, 1, 1])],
        {"axis": 1},
        outputs=4,
    )
    lines = [_steps(ctx, corners[axis], corners[axis + 2], side) for axis, side in enumerate(sides)]
    y, x = (ctx.unsqueeze(line, [axis]) for line, axis in zip(lines, (2, 1), strict=True))
    zeros = ctx.constant(np.zeros((1, *sides)), dtype=np.float32)
    places = [ctx.unsqueeze(ctx.add("Add", [p, zeros]), [3]) for p in (x, y)]
    unit = ctx.add("Concat", places, {"axis": 3})
    grid = ctx.add("Sub", [ctx.add("Mul", [unit, ctx.scalar(2, unit)]), ctx.scalar(1, unit)])
    own = ctx.as_type(owners, ir.DataType.INT64)
    taken = ctx.add("Gather", [ctx.first(images), own], {"axis": 0})
    settings = {"mode": "linear", "padding_mode": "border", "align_corners": 1}
    sampled = ctx.add("GridSample", [taken, grid], settings)
    inside = ctx.add("And", [_within(ctx, y), _within(ctx, x)])
    outside = ctx.scalar(ctx.number("extrapolation_value", 0.0), sampled)
    mask = ctx.unsqueeze(inside, [1])
    return Tensor(ctx.add("Where", [mask, sampled, outside]), True)


def _steps(ctx: TensorFlowOperation, begin: ir.Value, end: ir.Value, count: int) -> ir.Value:
    """Return places from begin to end, both of shape (boxes, 1); the middle if there is one place."""
    shares = np.linspace(0, 1, count, dtype=np.float32) if count > 1 else np.asarray([0.5])
    share = ctx.constant(shares.reshape(1, -1), dtype=np.float32)
    return ctx.add("Add", [begin, ctx.add("Mul", [ctx.add("Sub", [end, begin]), share])])


def _within(ctx: TensorFlowOperation, place: ir.Value) -> ir.Value:
    above = ctx.add("GreaterOrEqual", [place, ctx.scalar(0, place)])
    return ctx.add("And", [above, ctx.add("LessOrEqual", [place, ctx.scalar(1, place)])])

"""Boxes chosen, and parts of images cut out by boxes (non_max_suppression_op.cc, crop_and_resize_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item

WHOLE = {"to": int(ir.DataType.INT32)}


@operator_reader(
    "NonMaxSuppression",
    "NonMaxSuppressionV2",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
)
def non_max_suppression(call: Call) -> list[Item]:
    """The numbers of the boxes that are kept, the best first; V4 tells how many, V5 their scores as well."""
    writer = call.writer
    if call.op == "NonMaxSuppressionV5" and float(call.constant(5, "soft_nms_sigma")) != 0.0:
        raise call.refuse("soft_nms_sigma that is not 0 lowers scores instead of dropping boxes: not read")
    boxes, scores = (writer.source(x) for x in call.operands(0, 2))
    most = call.integers(2, "max_output_size")
    inputs = [
        writer.add("Unsqueeze", [boxes, writer.integers([0])]),
        writer.add("Unsqueeze", [scores, writer.integers([0, 1])]),
        writer.integers(most),
        writer.builder.constant(_threshold(call), dtype=np.float32),
    ]
    if len(call.inputs) > 4:
        lowest = call.constant(4, "score_threshold").astype(np.float32).reshape(1)
        if np.isfinite(lowest[0]):
            inputs.append(writer.builder.constant(lowest, dtype=np.float32))
    rows = writer.add("NonMaxSuppression", inputs)
    kept = writer.add("Gather", [rows, writer.builder.constant(2, dtype="int64")], {"axis": 1})
    count = writer.add("Cast", [writer.add("Size", [kept])], WHOLE)
    found = [kept, writer.add("Gather", [scores, kept], {"axis": 0})]
    if call.attribute("pad_to_max_output_size", False):
        found = [_filled(call, value, most[0]) for value in found]
    numbers = Tensor(writer.add("Cast", [found[0]], WHOLE))
    if call.op == "NonMaxSuppressionV4":
        return [numbers, Tensor(count)]
    return [numbers, Tensor(found[1]), Tensor(count)] if call.op == "NonMaxSuppressionV5" else [numbers]


def _threshold(call: Call) -> np.ndarray:
    if call.op == "NonMaxSuppression":
        return np.asarray([call.real("iou_threshold", 0.5)], np.float32)
    return call.constant(3, "iou_threshold").astype(np.float32).reshape(1)


def _filled(call: Call, value: ir.Value, size: int) -> ir.Value:
    """Return a list with zeros behind it, so that it is of this length."""
    writer = call.writer
    missing = writer.add("Sub", [writer.integers([size]), writer.add("Shape", [value])])
    ends = writer.add("Concat", [writer.integers([0]), missing], {"axis": 0})
    return writer.add("Pad", [value, ends])


@operator_reader("CropAndResize")
def crop_and_resize(call: Call) -> Tensor:
    """Parts of images by boxes (y1, x1, y2, x2) from 0 to 1, all of one size, read between the pixels."""
    writer = call.writer
    if call.text("method", "bilinear") != "bilinear":
        raise call.refuse(f"method={call.text('method', '')!r} is not read, expected bilinear")
    images, boxes, owners = call.operands(0, 3)
    sides = call.integers(3, "crop_size")
    corners = writer.add_many(
        "Split",
        [writer.source(boxes), writer.integers([1, 1, 1, 1])],
        {"axis": 1},
        num_outputs=4,
    )
    lines = [_steps(call, corners[axis], corners[axis + 2], side) for axis, side in enumerate(sides)]
    y, x = (
        writer.add("Unsqueeze", [line, writer.integers([axis])])
        for line, axis in zip(lines, (2, 1), strict=True)
    )
    zeros = writer.builder.constant(np.zeros((1, *sides)), dtype=np.float32)
    places = [writer.add("Unsqueeze", [writer.add("Add", [p, zeros]), writer.integers([3])]) for p in (x, y)]
    unit = writer.add("Concat", places, {"axis": 3})
    grid = writer.add("Sub", [writer.add("Mul", [unit, writer.number(2, unit)]), writer.number(1, unit)])
    own = writer.add("Cast", [writer.source(owners)], {"to": int(ir.DataType.INT64)})
    taken = writer.add("Gather", [writer.first(images), own], {"axis": 0})
    settings = {"mode": "linear", "padding_mode": "border", "align_corners": 1}
    sampled = writer.add("GridSample", [taken, grid], settings)
    inside = writer.add("And", [_within(call, y), _within(call, x)])
    outside = writer.number(call.real("extrapolation_value", 0.0), sampled)
    mask = writer.add("Unsqueeze", [inside, writer.integers([1])])
    return Tensor(writer.add("Where", [mask, sampled, outside]), True)


def _steps(call: Call, begin: ir.Value, end: ir.Value, count: int) -> ir.Value:
    """Return places from begin to end, both of shape (boxes, 1); the middle if there is one place."""
    writer = call.writer
    shares = np.linspace(0, 1, count, dtype=np.float32) if count > 1 else np.asarray([0.5])
    share = writer.builder.constant(shares.reshape(1, -1), dtype=np.float32)
    return writer.add("Add", [begin, writer.add("Mul", [writer.add("Sub", [end, begin]), share])])


def _within(call: Call, place: ir.Value) -> ir.Value:
    writer = call.writer
    above = writer.add("GreaterOrEqual", [place, writer.number(0, place)])
    return writer.add("And", [above, writer.add("LessOrEqual", [place, writer.number(1, place)])])

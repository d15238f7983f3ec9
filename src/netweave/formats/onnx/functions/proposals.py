"""Regions from the heads of a region proposal network: N images, A anchors of a cell, H by W cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.formats.onnx.functions import tape
from netweave.formats.onnx.functions.boxes import best_first, greedy, indices, masked, rows
from netweave.formats.onnx.functions.table import FunctionNode, body
from netweave.formats.onnx.functions.tape import Tensor, constant, op
from netweave.graph.ops.box_geometry import (
    base_anchors,
    decode_pixel_boxes,
    decode_region_boxes,
    intersection_over_union,
)
from netweave.graph.ops.region_proposals import BASE_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@body("Proposal")
def proposal(node: FunctionNode) -> Sequence[Tensor]:
    """One region at a time: both corners belong to a box, which ``NonMaxSuppression`` cannot be told."""
    scores, deltas, info = node.inputs
    s = node.settings
    anchors = np.array(base_anchors(s["feature_stride"], s["ratios"], s["scales"]), np.float32)
    own = scores.part(len(anchors), 2 * len(anchors), axis=1)
    own = op("Transpose", own, perm=[0, 2, 3, 1])  # (N, H, W, A)
    moves = op("Transpose", deltas, perm=[0, 2, 3, 1])
    moves = op("Reshape", moves, op("Concat", own.sizes(), [4], axis=0))
    height, width, scale = info.split(3, axis=1)
    cells = _shifted(anchors, own, s["feature_stride"])
    boxes = cells + moves if s["iou_loss"] else decode_pixel_boxes(cells, moves, tape)
    boxes = _cut(boxes, height, width)
    inside = _inside(own, (height, width), s["feature_stride"])
    own = op("Where", inside.at(3), own, -1.0)
    boxes = op("Reshape", boxes, op("Concat", own.size(0), [-1, 4], axis=0))
    flat = op("Reshape", own, [0, -1])
    boxes, flat = _without_small(boxes, flat, scale * float(s["rpn_min_size"]))
    first = flat.size(1)
    if s["rpn_pre_nms_top_n"] > 0:
        first = op("Min", first, [s["rpn_pre_nms_top_n"]])
    order = best_first(flat, first)
    boxes, flat = rows(boxes, order), op("GatherElements", flat, order, axis=1)
    return _regions(boxes, flat, op("Min", first, [s["rpn_post_nms_top_n"]]), s)


def _shifted(anchors: np.ndarray, own: Tensor, stride: int) -> Tensor:
    """Return the anchors of each cell, (H, W, A, 4)."""
    down, right = (indices(own.size(axis)).cast(ir.DataType.FLOAT) * float(stride) for axis in (1, 2))
    down, right = down.at(1), right.at(0)
    down, right = op("Add", down, right * 0.0), op("Add", right, down * 0.0)
    shifts = op("Concat", *(part.at(2, 3) for part in (right, down, right, down)), axis=3)
    return shifts + anchors


def _cut(boxes: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Return boxes (N, H, W, A, 4) cut to their images."""
    limits = op("Concat", width - 1.0, height - 1.0, width - 1.0, height - 1.0, axis=1).at(1, 2, 3)
    return op("Max", op("Min", boxes, limits), 0.0)


def _inside(own: Tensor, ends: tuple[Tensor, Tensor], stride: int) -> Tensor:
    """Return which cells are in the image and not in its padding, (N, H, W)."""
    last = [(end / float(stride)).cast(ir.DataType.INT64) for end in ends]
    down, right = (indices(own.size(axis)).at(0) < end for axis, end in zip((1, 2), last, strict=True))
    return down.at(2) & right.at(1)


def _without_small(boxes: Tensor, scores: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """Return boxes and scores, small boxes larger and with the score -1."""
    low, high = boxes.split(2, axis=2)
    small = op("ReduceMax", (high - low + 1.0 < least.at(2)).cast(ir.DataType.INT32), [2], keepdims=0)
    is_small = small.cast(ir.DataType.BOOL)
    wider = op("Mul", np.array([-1, -1, 1, 1], np.float32), least.at(2) / 2.0)
    boxes = op("Where", is_small.at(2), boxes + wider, boxes)
    return boxes, op("Where", is_small, -1.0, scores)


def _suppressing(boxes: Tensor, threshold: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function that says which boxes a survivor suppresses; both corners belong to a box."""

    def suppresses(best: Tensor, number: Tensor) -> Tensor:
        common: Tensor = intersection_over_union(boxes, best, tape, edge=1.0)
        return ~(common <= threshold)

    return suppresses


def _regions(boxes: Tensor, scores: Tensor, most: Tensor, s: dict[str, Any]) -> list[Tensor]:
    """Return the regions that stay as rows of image and corners, repeated to so many, and their scores."""
    able = scores >= scores
    suppresses = _suppressing(boxes, float(s["threshold"]))
    stays = greedy(boxes, able, most=op("Squeeze", most), suppresses=suppresses)
    kept = best_first(stays.cast(ir.DataType.FLOAT), boxes.size(1))
    count = op("ReduceSum", stays.cast(ir.DataType.INT64), [1], keepdims=1)
    chosen = op("GatherElements", kept, op("Mod", indices(most).at(0), count), axis=1)
    images = indices(boxes.size(0)).cast(ir.DataType.FLOAT).at(1, 2)
    found = rows(boxes, chosen)
    image = op("Expand", images, op("Concat", found.sizes(0, 2), [1], axis=0))
    regions = op("Concat", image, found, axis=2)
    score = op("GatherElements", scores, chosen, axis=1)
    return [op("Reshape", regions, [-1, 5]), op("Reshape", score, [-1, 1])]


@body("RegionProposal")
def region_proposal(node: FunctionNode) -> Sequence[Tensor]:
    """As many regions as stay, of the boxes of one image that are large enough."""
    scores, deltas, info = node.inputs
    s = node.settings
    anchors = np.array(base_anchors(BASE_SIZE, s["ratios"], s["scales"]), np.float32)
    own = op("Transpose", scores.part(len(anchors), 2 * len(anchors), axis=1), perm=[0, 2, 3, 1])
    moves = op("Transpose", deltas, perm=[0, 2, 3, 1])
    moves = op("Reshape", moves, op("Concat", own.sizes(), [4], axis=0))
    height, width, scale = (info.part(column, column + 1, axis=1) for column in range(3))
    boxes = decode_region_boxes(_shifted(anchors, own, s["feature_stride"]), moves, tape)
    boxes = _cut(boxes, height, width)
    boxes, flat = op("Reshape", boxes, [1, -1, 4]), op("Reshape", own, [1, -1])
    low, high = boxes.split(2, axis=2)
    is_side = (high - low + 1.0 >= (scale * float(s["min_size"])).at(2)).cast(ir.DataType.INT32)
    large = op("ReduceMin", is_side, [2], keepdims=0).cast(ir.DataType.BOOL)
    first = flat.size(1)
    if s["pre_nms_top_n"] > 0:
        first = op("Min", first, [s["pre_nms_top_n"]])
    order = best_first(masked(large, flat), first)
    boxes, flat = rows(boxes, order), op("GatherElements", flat, order, axis=1)
    able = op("GatherElements", large.cast(ir.DataType.INT32), order, axis=1).cast(ir.DataType.BOOL)
    most = constant(s["post_nms_top_n"]) if s["post_nms_top_n"] > 0 else op("Squeeze", first)
    suppresses = _suppressing(boxes, float(s["nms_threshold"]))
    stays = op("Squeeze", greedy(boxes, able, most=most, suppresses=suppresses), [0])
    regions = op("Compress", op("Squeeze", boxes, [0]), stays, axis=0)
    score = op("Compress", op("Squeeze", flat, [0]), stays, axis=0).at(1)
    return [op("Concat", score * 0.0, regions, axis=1), score]

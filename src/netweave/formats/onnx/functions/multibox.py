"""MXNet's MultiBoxDetection and BoxNMS: N images, A anchors, C classes with the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions import tape
from netweave.formats.onnx.functions.boxes import (
    best_first,
    for_nms,
    greedy,
    indices,
    masked,
    rows,
)
from netweave.formats.onnx.functions.table import FunctionNode, body, without
from netweave.formats.onnx.functions.tape import Tensor, multi_op, op
from netweave.graph.ops.box_geometry import (
    centres_of_corners,
    corners_of_centres,
    decode_boxes,
    intersection_over_union,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

without("MultiBoxTarget", reason="it chooses what to train on; a net that predicts has none")


@body("MultiBoxDetection")
def multibox_detection(node: FunctionNode) -> Sequence[Tensor]:
    """By ``NonMaxSuppression``, whose threshold is the next number below: MXNet's boxes go from it on."""
    probabilities, locations, anchors = node.inputs
    s = node.settings
    if node.shape(0)[1] == 1:
        raise NotWritable("there is no class but the background")
    deltas = op("Reshape", locations, [0, -1, 4]) * np.array(s["variances"], np.float32)
    boxes = decode_boxes(anchors, deltas, tape)
    boxes = op("Clip", boxes, 0.0, 1.0) if s["clip"] else boxes
    likeliest = op("Slice", probabilities, [1], [np.iinfo(np.int64).max], [1])
    score = op("ReduceMax", likeliest, [1], keepdims=0)
    label = op("ArgMax", likeliest, axis=1, keepdims=0)
    likely = (score > -1.0) & (score >= float(s["threshold"]))
    count = op("ReduceSum", likely.cast(ir.DataType.INT64), [1], keepdims=1)
    table = op("Concat", label.cast(ir.DataType.FLOAT).at(2), score.at(2), boxes, axis=2)
    num_anchors = likely.size(1)
    order = best_first(likely.cast(ir.DataType.FLOAT), num_anchors)
    found = rows(table, order)
    is_row = indices(num_anchors).at(0) < count
    if 0 < s["nms_threshold"] <= 1:
        found = _suppressed(
            found, rows(table, best_first(masked(likely, score), num_anchors)), count, likeliest.size(1), s
        )
    return [op("Where", is_row.at(2), found, -1.0)]


def _suppressed(
    table: Tensor, ordered: Tensor, count: Tensor, num_classes: Tensor, s: dict[str, Any]
) -> Tensor:
    """Return rows best first, those that go with class -1; those beyond ``nms_topk`` are in no order."""
    places = indices(table.size(1)).at(0)
    looked_at = op("Min", count, s["nms_topk"]) if s["nms_topk"] > 0 else count
    candidate = places < looked_at
    found = op("Where", candidate.at(2), ordered, table)
    label, score, boxes = multi_op("Split", found, [1, 1, 4], outputs=3, axis=2)
    rivals = candidate.at(1)
    if not s["force_suppress"]:
        classes = indices(num_classes).cast(ir.DataType.FLOAT).at(0, 2)
        rivals = rivals & op("Equal", classes, op("Transpose", label, perm=[0, 2, 1]))
    scores = op("Where", rivals, op("Transpose", score, perm=[0, 2, 1]), -2.0)
    threshold = np.nextafter(np.float32(s["nms_threshold"]), np.float32(0))
    chosen = op("NonMaxSuppression", for_nms(boxes), scores, table.size(1), [float(threshold)], [-1.0])
    places_kept = op("Gather", chosen, [0, 2], axis=1)
    none = op("Where", candidate, 0.0, 0.0)
    ones = op("Expand", 1.0, chosen.size(0))
    kept = op("ScatterND", none, places_kept, ones) > 0.0
    label = op("Where", kept.at(2), label, -1.0)
    return op("Concat", label, score, boxes, axis=2)


@body("BoxNMS")
def box_nms(node: FunctionNode) -> Sequence[Tensor]:
    """One box at a time: ``NonMaxSuppression`` has no classes that are computed."""
    (x,) = node.inputs
    s = node.settings
    table = op("Reshape", x, op("Concat", [-1], x.sizes(-2), axis=0))
    scores = _column(table, s["score_index"])
    valid = scores > s["valid_thresh"]
    if s["id_index"] >= 0:
        valid = valid & ~op("Equal", _column(table, s["id_index"]), float(s["background_id"]))
    num_boxes = table.size(1)
    count = op("Min", num_boxes, [s["topk"]]) if s["topk"] > 0 else num_boxes
    order = best_first(masked(valid, scores), count)
    ordered = rows(table, order)
    candidates = op("GatherElements", valid.cast(ir.DataType.INT32), order, axis=1).cast(ir.DataType.BOOL)
    boxes = ordered.part(s["coord_start"], s["coord_start"] + 4, axis=2)
    boxes = corners_of_centres(boxes, tape) if s["in_format"] == "center" else boxes
    classes = _column(ordered, s["id_index"]) if s["id_index"] >= 0 and not s["force_suppress"] else None

    def suppresses(best: Tensor, number: Tensor) -> Tensor:
        goes: Tensor = intersection_over_union(best, boxes, tape) > float(s["overlap_thresh"])
        if classes is None:
            return goes
        return goes & op("Equal", classes, op("GatherElements", classes, number, axis=1))

    stays = greedy(boxes, candidates, most=op("Squeeze", count), suppresses=suppresses)
    kept = best_first(stays.cast(ir.DataType.FLOAT), count)
    total = op("ReduceSum", stays.cast(ir.DataType.INT64), [1], keepdims=1)
    found = _converted(rows(ordered, kept), s)
    found = op("Where", (indices(count).at(0) < total).at(2), found, -1.0)
    behind = op("Concat", [0, 0, 0, 0], num_boxes - count, [0], axis=0)
    return [op("Reshape", op("Pad", found, behind, -1.0), x.sizes())]


def _column(table: Tensor, index: int) -> Tensor:
    """Return a column of each table (B, P, columns)."""
    return op("Squeeze", table.part(index, index + 1, axis=2), [2])


def _converted(found: Tensor, s: dict[str, Any]) -> Tensor:
    """Return rows with their boxes in the format that is asked for."""
    if s["in_format"] == s["out_format"]:
        return found
    start = s["coord_start"]
    before, old = found.part(0, start, axis=2), found.part(start, start + 4, axis=2)
    behind = found.part(start + 4, np.iinfo(np.int64).max, axis=2)
    new = corners_of_centres(old, tape) if s["in_format"] == "center" else centres_of_corners(old, tape)
    new = op("Where", old.part(0, 1, axis=2) < 0.0, old, new)  # MXNet takes these for no boxes
    return op("Concat", before, new, behind, axis=2)

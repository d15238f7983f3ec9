"""Caffe's DetectionOutput: N images, P boxes, C classes; K detections in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions.boxes import best_first, for_nms, indices, masked
from netweave.formats.onnx.functions.table import FunctionNode, body, without
from netweave.formats.onnx.functions.tape import Tensor, multi_op, op

if TYPE_CHECKING:
    from collections.abc import Sequence

for _loss in ("MultiBoxLoss", "RegionLoss", "YoloLoss"):
    without(_loss, reason="it is a loss; a net that predicts has none")


@body("DetectionOutput")
def detection_output(node: FunctionNode) -> Sequence[Tensor]:
    """``NonMaxSuppression`` with the best ``top_k`` of each class for candidates."""
    s = node.settings
    if s["eta"] < 1 and s["nms_threshold"] > 0.5:
        raise NotWritable("NonMaxSuppression has no threshold that shrinks (eta)")
    boxes, all_scores = node.inputs
    threshold = float(np.float32(s["confidence_threshold"]))
    scores = op("Transpose", all_scores, perm=[0, 2, 1])
    able = scores > threshold
    if (background := s["background_label_id"]) >= 0:
        able = able & ~op("Equal", indices(scores.size(1)).at(0, 2), background)
    if s["top_k"] >= 0:
        able = able & _among(scores, able, s["top_k"])
    scores = op("Where", able, scores, threshold)
    found = _found(boxes, scores, threshold, s["nms_threshold"], own=node.shape(0)[2] != 1)
    image, label, box = multi_op("Split", found, outputs=3, num_outputs=3, axis=1)
    score = op("GatherND", scores, found)
    if s["keep_top_k"] >= 0:
        stays = _best_of_images(image, score, boxes.size(0), s["keep_top_k"])
        image, label, box, score = (
            op("Compress", part, stays, axis=0) for part in (image, label, box, score)
        )
    own_class = label if node.shape(0)[2] != 1 else label - label
    corners = op("GatherND", boxes, op("Concat", image, box, own_class, axis=1))
    whole = [part.cast(ir.DataType.FLOAT) for part in (image, label)]
    lines = op("Concat", *whole, score.at(1), corners, axis=1)
    return [op("Concat", lines, _none(lines, boxes.size(0)), axis=0).at(0, 1)]


def _among(scores: Tensor, able: Tensor, most: int) -> Tensor:
    """Return whether a score (N, C, P) is one of the best of its class."""
    count = op("Min", scores.size(2), [most])
    best = best_first(masked(able, scores), count)
    none = op("Where", able, 0.0, 0.0)
    return op("ScatterElements", none, best, op("Expand", 1.0, best.sizes()), axis=2) > 0.0


def _found(boxes: Tensor, scores: Tensor, threshold: float, overlap: float, *, own: bool) -> Tensor:
    """Return image, class and box of what stays (K, 3), in that order, the boxes best first.

    Args:
        boxes: (N, P, 1 or C, 4).
        scores: (N, C, P), not above the threshold where a box is no candidate.
        threshold: Of the scores.
        overlap: A box goes that overlaps a better one by more.
        own: Whether each class has boxes of its own.
    """
    limits = (scores.size(2), [overlap], [threshold])
    if not own:
        return op("NonMaxSuppression", for_nms(op("Squeeze", boxes, [2])), scores, *limits)
    by_class = op("Transpose", boxes, perm=[0, 2, 1, 3])
    tables = op("Reshape", by_class, op("Concat", [-1], scores.size(2), [4], axis=0))
    single = op("Reshape", scores, op("Concat", [-1, 1], scores.size(2), axis=0))
    table, _, box = multi_op(
        "Split", op("NonMaxSuppression", for_nms(tables), single, *limits), outputs=3, num_outputs=3, axis=1
    )
    num_classes = scores.size(1)
    return op("Concat", table / num_classes, op("Mod", table, num_classes), box, axis=1)


def _best_of_images(image: Tensor, score: Tensor, num_images: Tensor, most: int) -> Tensor:
    """Return whether each of all detections (K,) is one of the best of its image; of equal ones the first."""
    by_score = best_first(score, score.size(0))
    image = op("Squeeze", image, [1])
    by_image = multi_op("TopK", op("Gather", image, by_score), image.size(0), outputs=2, axis=0, largest=0)
    order = op("Gather", by_score, by_image[1])
    counts = op("Equal", by_image[0].at(0), indices(num_images).at(1)).cast(ir.DataType.INT64)
    first = op("CumSum", op("ReduceSum", counts, [1], keepdims=0), 0, exclusive=1)
    rank = indices(image.size(0)) - op("Gather", first, by_image[0])
    stays = op("Where", rank < most, 1.0, 0.0)
    return op("ScatterElements", stays * 0.0, order, stays, axis=0) > 0.0


def _none(lines: Tensor, num_images: Tensor) -> Tensor:
    """Return a row of its number and -1 for each image if there are no detections at all."""
    shown = op("Where", op("Equal", lines.size(0), 0), num_images, 0)
    numbers = indices(shown).cast(ir.DataType.FLOAT).at(1)
    return op("Pad", numbers, [0, 0, 0, 6], -1.0)

"""SSD's last layer in Caffe: which of the decoded boxes are detections.

Decoding is arithmetic, and readers write it with standard operators; what stays, and in which order, has no
form in ONNX: its NonMaxSuppression knows neither a number of candidates nor a shrinking threshold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netweave.graph.operators import Attributes, Dim, no_gradient, operator
from netweave.graph.ops.boxes import best_first, suppress

Arrays = Sequence[np.ndarray]
Shapes = Sequence[tuple[Dim, ...]]


def written(shape: Sequence[Dim]) -> str:
    """Return a shape in words."""
    return f"({', '.join(map(str, shape))})"


def _detection_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    boxes, scores = shapes
    if len(boxes) != 4 or len(scores) != 3 or boxes[3] != 4 or boxes[1] != scores[1]:
        raise ValueError(
            f"boxes {written(boxes)} and scores {written(scores)}, expected (N, P, 1 or C, 4) and (N, P, C)"
        )
    if boxes[2] not in {1, scores[2]}:
        raise ValueError(
            f"boxes for {boxes[2]} classes, expected 1 or {scores[2]}, the number of classes with scores"
        )
    return [(1, 1, ir.SymbolicDim(None), 7)]


_DEFAULTS = {
    "background_label_id": 0,
    "confidence_threshold": float(np.finfo(np.float32).min),
    "nms_threshold": 0.3,
    "top_k": -1,
    "keep_top_k": -1,
    "eta": 1.0,
}


@operator("DetectionOutput", shapes=_detection_shapes, gradient=no_gradient, defaults=_DEFAULTS)
def detection_output(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe detection_output_layer.cpp, ApplyNMSFast: one row for each detection, by image, class and score.

    Inputs: boxes (N, P, 1 or C, 4) and scores (N, P, C). Rows: image, class, score, x0, y0, x1, y1; without
    any detection one row for each image, of its number and -1. Attributes: ``background_label_id``,
    ``confidence_threshold``, ``nms_threshold``, ``eta``, ``top_k`` candidates of a class and ``keep_top_k``
    detections of an image (-1: all). Where scores are equal at the border of ``keep_top_k``, Caffe's sort
    leaves open which stays; here it is the one of the lower class, and then the earlier one.
    """
    boxes, scores = inputs
    attributes = {**_DEFAULTS, **attributes}
    found = [_of_image(b, s, attributes) for b, s in zip(boxes, scores, strict=True)]
    rows = [
        (image, label, scores[image, box, label], *boxes[image, box, min(label, boxes.shape[2] - 1)])
        for image, pairs in enumerate(found)
        for label, box in pairs
    ]
    rows = rows or [(image, *[-1] * 6) for image in range(len(scores))]
    return [np.array(rows, scores.dtype).reshape(1, 1, -1, 7)]


def _of_image(boxes: np.ndarray, scores: np.ndarray, attributes: Attributes) -> list[tuple[int, int]]:
    """Return the detections of an image as (class, number of the box), by class and score."""
    pairs = []
    for label in range(scores.shape[1]):
        if label == attributes["background_label_id"]:
            continue
        above, most = attributes["confidence_threshold"], attributes["top_k"]
        order = best_first(scores[:, label], above=above, most=most)
        own = boxes[:, min(label, boxes.shape[1] - 1)]
        kept = suppress(own, order, threshold=attributes["nms_threshold"], eta=attributes["eta"])
        pairs += [(label, int(box)) for box in kept]
    most = attributes["keep_top_k"]
    if 0 <= most < len(pairs):
        order = np.argsort([-scores[box, label] for label, box in pairs], kind="stable")
        pairs = [pairs[index] for index in sorted(order[:most])]
    return pairs

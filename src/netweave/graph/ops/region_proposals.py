"""Regions of interest from the heads of a region proposal network, as the first Faster R-CNN chose them.

Unlike MXNet's (see ``proposals``), boxes that are too small are dropped, the far corner of a box is a pixel
further, and there are as many regions as stay: no row is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.operators import Attributes, Dim, no_gradient, operator
from netweave.graph.ops.box_geometry import base_anchors, decode_region_boxes
from netweave.graph.ops.boxes import suppress

if TYPE_CHECKING:
    from collections.abc import Sequence

REGION_PROPOSAL_DEFAULTS = {
    "feature_stride": 16,
    "scales": (8.0, 16.0, 32.0),
    "ratios": (0.5, 1.0, 2.0),
    "pre_nms_top_n": 6000,
    "post_nms_top_n": 300,
    "nms_threshold": 0.7,
    "min_size": 16.0,
}

BASE_SIZE = 16
"""Side of the box that ratios and scales change, whatever the stride is."""


def _shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    scores, deltas, info = shapes
    s = {**REGION_PROPOSAL_DEFAULTS, **attributes}
    num_anchors = len(s["scales"]) * len(s["ratios"])
    if len(scores) != 4 or len(deltas) != 4 or len(info) != 2:
        raise ValueError("expected probabilities (1, 2A, H, W), locations (1, 4A, H, W) and sizes (1, 3)")
    if scores[1] != 2 * num_anchors or deltas[1] != 4 * num_anchors:
        raise ValueError(
            f"{scores[1]} probabilities and {deltas[1]} locations for each cell, expected {2 * num_anchors} "
            f"and {4 * num_anchors} for {len(s['ratios'])} ratios and {len(s['scales'])} scales"
        )
    count = ir.SymbolicDim(None)
    return [(count, 5), (count, 1)]


@operator("RegionProposal", shapes=_shapes, gradient=no_gradient, defaults=REGION_PROPOSAL_DEFAULTS)
def region_proposal(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Faster R-CNN proposal_layer.py: rows of image 0 and corners, best first, and their scores.

    Inputs: probabilities (1, 2A, H, W), the second half of which counts, locations (1, 4A, H, W), and height,
    width and scale of the image (1, 3). Attributes as in ``REGION_PROPOSAL_DEFAULTS``.
    """
    s = {**REGION_PROPOSAL_DEFAULTS, **attributes}
    scores, deltas, info = inputs
    anchors = np.array(base_anchors(BASE_SIZE, s["ratios"], s["scales"]), scores.dtype)
    own = np.moveaxis(scores[0, len(anchors) :], 0, -1)
    moves = np.moveaxis(deltas[0], 0, -1).reshape(*own.shape, 4)
    rows, columns = np.indices(own.shape[:2]).astype(scores.dtype) * s["feature_stride"]
    shifts = np.stack([columns, rows, columns, rows], axis=-1)[:, :, None]
    height, width, scale = info[0, :3]
    limits = np.array([width - 1, height - 1] * 2, scores.dtype)
    boxes = np.maximum(np.minimum(decode_region_boxes(anchors + shifts, moves, np), limits), 0).reshape(-1, 4)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= s["min_size"] * scale).all(axis=1)
    boxes, flat = boxes[large], own.reshape(-1)[large]
    order = np.argsort(-flat, kind="stable")[: s["pre_nms_top_n"] if s["pre_nms_top_n"] > 0 else None]
    most = s["post_nms_top_n"] if s["post_nms_top_n"] > 0 else len(order)
    chosen = suppress(boxes, order, threshold=s["nms_threshold"], most=most, edge=1.0)
    images = np.zeros((len(chosen), 1), scores.dtype)
    return [np.concatenate([images, boxes[chosen]], axis=1), flat[chosen, None]]

"""Detection in torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from netweave.graph.ops.multibox_loss import TRUTH_COLUMNS, choose
from netweave.graph.ops.regions import Head, region_delta, yolo_delta
from netweave.runtime.backends.torch.detectors import suppress
from netweave.runtime.backends.torch.losses import LOG_TINY, bounded, wide
from netweave.runtime.backends.torch.operator_table import (
    Number,
    add_lowering,
    lowering,
    registered_lowering,
    with_gradient,
)

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.random import Draws
    from netweave.runtime.backends.torch.whole_batch import WholeBatch


_CHOOSING = {
    "BoxNMS": 1,
    "DetectionOutput": 2,
    "MultiBoxDetection": 3,
    "MultiBoxTarget": 3,
    "Proposal": 3,
    "RegionProposal": 3,
}
"""Operators of the registry that choose boxes, with the number of their inputs. One comparison follows on the
other and no gradient flows through, so torch runs the registry's forward on the host, as the sources do."""

for _op_type, _num_inputs in _CHOOSING.items():
    add_lowering(registered_lowering(_op_type, num_inputs=_num_inputs))


def _corners(boxes: Tensor, *, center_point_box: bool) -> Tensor:
    """Return boxes as (y1, x1, y2, x2) with y1 <= y2 and x1 <= x2."""
    if center_point_box:
        x, y, width, height = boxes.unbind(-1)
        return torch.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return torch.cat([torch.minimum(first, second), torch.maximum(first, second)], -1)


@lowering("NonMaxSuppression", since=10)
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Number | None = None,
    iou_threshold: Number | None = None,
    score_threshold: Number | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """Return (image, class, box) of what stays, in the order of images, classes and scores."""
    corners = _corners(boxes, center_point_box=bool(center_point_box))
    limit, kept_rows = int(max_output_boxes_per_class or 0), []
    for image, per_class in enumerate(scores):
        for number, values in enumerate(per_class):
            order = torch.argsort(values, descending=True, stable=True)
            if score_threshold is not None:
                order = order[values[order] > score_threshold]
            kept = suppress(corners[image], order, float(iou_threshold or 0), most=limit)
            kept_rows += [(image, number, box) for box in kept.tolist()]
    return torch.tensor(kept_rows, dtype=torch.int64, device=boxes.device).reshape(-1, 3)


def _sampling(size: float, num_bins: int, ratio: int) -> int:
    """Return how many samples a bin has along an axis."""
    return ratio if ratio > 0 else max(math.ceil(size / num_bins), 0)


def _samples(begin: Tensor, size: Tensor, num_bins: int, count: int) -> Tensor:
    """Return the places of all samples along an axis, bin after bin."""
    step = size / num_bins / max(count, 1)
    return begin + (torch.arange(num_bins * count, device=begin.device) + 0.5) * step


def _weights(places: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return for places along an axis the neighbours below and above and what each counts."""
    inside = ((places >= -1) & (places <= size)).to(places.dtype)
    clipped = places.clamp(0, size - 1)
    low = clipped.floor()
    high = (low + 1).clamp(max=size - 1)
    part = clipped - low
    return low.to(torch.int64), high.to(torch.int64), (1 - part) * inside, part * inside


@lowering("RoiAlign", since=16)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Average (or take the largest of) samples in each bin of each region.

    ONNX's largest is over the four weighted neighbours of each sample, not over the samples.
    """
    half = coordinate_transformation_mode == "half_pixel"
    out = []
    for roi, image in zip(rois * spatial_scale - (0.5 if half else 0.0), batch_indices, strict=True):
        begin, size = roi[:2], roi[2:] - roi[:2]
        size = size if half else size.clamp(min=1.0)
        rows = _sampling(float(size[1]), output_height, sampling_ratio)
        columns = _sampling(float(size[0]), output_width, sampling_ratio)
        low_y, high_y, a_y, b_y = _weights(_samples(begin[1], size[1], output_height, rows), x.shape[2])
        low_x, high_x, a_x, b_x = _weights(_samples(begin[0], size[0], output_width, columns), x.shape[3])
        plane = x[int(image)]
        parts = [
            plane[:, iy][:, :, ix] * (wy[:, None] * wx)
            for iy, wy in ((low_y, a_y), (high_y, b_y))
            for ix, wx in ((low_x, a_x), (high_x, b_x))
        ]
        whole = torch.stack(parts) if mode == "max" else sum(parts[1:], parts[0])
        bins = whole.unflatten(-1, (output_width, columns)).unflatten(-3, (output_height, rows))
        out.append(bins.amax((0, -3, -1)) if mode == "max" else bins.mean((-3, -1)))
    return torch.stack(out) if out else x.new_zeros(0, x.shape[1], output_height, output_width)


@lowering("MultiBoxLoss", since=1, domain="netweave")
def multibox_loss(
    loc: Tensor,
    conf: Tensor,
    priors: Tensor,
    truth: Tensor,
    *,
    loc_loss: str = "SMOOTH_L1",
    conf_loss: str = "SOFTMAX",
    loc_weight: float = 1.0,
    conf_weight: float = 1.0,
    match_type: str = "PER_PREDICTION",
    overlap_threshold: float = 0.5,
    background_label_id: int = 0,
    use_difficult_gt: int = 1,
    ignore_cross_boundary_bbox: int = 0,
    mining_type: str = "MAX_NEGATIVE",
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    code_type: str = "CORNER",
    encode_variance_in_target: int = 0,
    normalization: str = "VALID",
) -> Tensor:
    """Return the losses of the locations that stand for a box, and of their scores and the worst others."""
    settings = {
        "conf_loss": conf_loss,
        "match_type": match_type,
        "overlap_threshold": overlap_threshold,
        "background_label_id": background_label_id,
        "use_difficult_gt": use_difficult_gt,
        "ignore_cross_boundary_bbox": ignore_cross_boundary_bbox,
        "mining_type": mining_type,
        "neg_pos_ratio": neg_pos_ratio,
        "neg_overlap": neg_overlap,
        "code_type": code_type,
        "encode_variance_in_target": encode_variance_in_target,
        "normalization": normalization,
    }
    num = priors.shape[2] // 4
    locations, scores = wide(loc).reshape(len(loc), num, -1, 4), wide(conf).reshape(len(conf), num, -1)
    boxes, rows = priors.reshape(2, num, 4), truth.reshape(-1, TRUTH_COLUMNS)
    chosen = choose(_host(locations), _host(scores), _host(boxes), _host(rows), settings)
    image, prior, slot = (
        torch.from_numpy(part).to(loc.device) for part in (chosen.image, chosen.prior, chosen.slot)
    )
    scale, targets = (torch.from_numpy(part).to(locations) for part in (chosen.scale, chosen.targets))
    predicted = locations[image, prior, slot]
    # Caffe's gradient knows nothing of the division by the variances
    predicted = with_gradient(predicted, predicted / scale, torch.ones_like(predicted), times_above=True)
    loc_total = _location_loss(predicted - targets / scale, loc_loss)
    image, prior, labels = (
        torch.from_numpy(part).to(loc.device)
        for part in (chosen.conf_image, chosen.conf_prior, chosen.labels)
    )
    conf_total = _score_loss(scores[image, prior], labels, conf_loss)
    return (loc_weight * loc_total + conf_weight * conf_total) / chosen.divisor


def _host(x: Tensor) -> np.ndarray:
    array: np.ndarray = x.detach().cpu().numpy()
    return array


def _location_loss(gap: Tensor, kind: str) -> Tensor:
    if kind == "L2":
        return gap.square().sum() / 2
    return functional.smooth_l1_loss(gap, torch.zeros_like(gap), reduction="sum")


def _score_loss(scores: Tensor, labels: Tensor, kind: str) -> Tensor:
    if kind == "SOFTMAX":
        log_p = torch.log_softmax(scores, 1)
        return -bounded(log_p.gather(1, labels[:, None]), LOG_TINY).sum()
    targets = functional.one_hot(labels, scores.shape[1]).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum")


@lowering("YoloLoss", since=1, domain="netweave")
def yolo_loss(
    x: Tensor,
    truth: Tensor,
    *,
    anchors: Sequence[float],
    classes: int,
    width: int,
    height: int,
    mask: Sequence[int] = (),
    ignore_thresh: float = 0.5,
    truth_thresh: float = 1.0,
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the cost of a YOLO layer and what it is like; its gradient is Darknet's delta."""
    settings = {
        "anchors": anchors,
        "classes": classes,
        "width": width,
        "height": height,
        "mask": mask,
        "ignore_thresh": ignore_thresh,
        "truth_thresh": truth_thresh,
    }
    scores = wide(x)
    return _loss(scores, yolo_delta(_host(scores), _host(truth), settings), batch)


@lowering("RegionLoss", since=1, domain="netweave")
def region_loss(
    x: Tensor,
    truth: Tensor,
    *,
    anchors: Sequence[float],
    classes: int,
    softmax: int = 0,
    bias_match: int = 0,
    rescore: int = 0,
    thresh: float = 0.5,
    coord_scale: float = 1.0,
    object_scale: float = 1.0,
    noobject_scale: float = 1.0,
    class_scale: float = 1.0,
    seen: int = 0,
    update_images: int = 1,
    pass_images: int = 1,
    batch: WholeBatch,
    draws: Draws,
    stream: int,
) -> tuple[Tensor, ...]:
    """Return the cost of a region layer and what it is like; its gradient is Darknet's delta.

    ``seen`` counts images before the run, ``update_images`` those of an update, and ``pass_images`` those of
    one forward pass of the whole batch, after which Darknet counts.
    """
    settings = {
        "anchors": anchors,
        "classes": classes,
        "softmax": softmax,
        "bias_match": bias_match,
        "rescore": rescore,
        "thresh": thresh,
        "coord_scale": coord_scale,
        "object_scale": object_scale,
        "noobject_scale": noobject_scale,
        "class_scale": class_scale,
        "seen": seen + draws.images_seen(per_update=update_images, per_pass=pass_images),
    }
    scores = wide(x)
    return _loss(scores, region_delta(_host(scores), _host(truth), settings), batch)


def _loss(x: Tensor, head: Head, batch: WholeBatch) -> tuple[Tensor, ...]:
    divisor = batch.divisor(x.shape[0])
    delta = torch.from_numpy(head.delta).reshape(x.shape).to(x)
    cost = delta.square().sum() / divisor
    loss = with_gradient(x, cost, -delta / divisor, times_above=True)
    return loss, torch.from_numpy(head.statistics()).to(x)

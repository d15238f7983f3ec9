"""Boxes and regions of interest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.runtime.backends.torch.detectors import suppress
from netweave.runtime.backends.torch.registered import registered_lowering
from netweave.runtime.backends.torch.table import add_lowering, lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.table import Number

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
    limit, found = int(max_output_boxes_per_class or 0), []
    for image, per_class in enumerate(scores):
        for number, values in enumerate(per_class):
            order = torch.argsort(values, descending=True, stable=True)
            if score_threshold is not None:
                order = order[values[order] > score_threshold]
            kept = suppress(corners[image], order, float(iou_threshold or 0), most=limit)
            found += [(image, number, box) for box in kept.tolist()]
    return torch.tensor(found, dtype=torch.int64, device=boxes.device).reshape(-1, 3)


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

"""SSD's loss: the choice of boxes is the registry's, on the host as in Caffe; the losses are torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from netweave.graph.ops.multibox_loss import TRUTH_COLUMNS, choose
from netweave.runtime.backends.torch.gradients import with_gradient
from netweave.runtime.backends.torch.losses import LOG_TINY, bounded, wide
from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    import numpy as np


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
    found = locations[image, prior, slot]
    # Caffe's gradient knows nothing of the division by the variances
    found = with_gradient(found, found / scale, torch.ones_like(found), times_above=True)
    loc_total = _location_loss(found - targets / scale, loc_loss)
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

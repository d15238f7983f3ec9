"""YOLO's losses: what each cell should have said is the registry's, on the host as in Darknet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.graph.ops.yolo_loss import Head, region_delta, yolo_delta
from netweave.runtime.backends.torch.gradients import with_gradient
from netweave.runtime.backends.torch.losses import wide
from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from netweave.runtime.backends.torch.draws import Draws
    from netweave.runtime.backends.torch.whole_batch import WholeBatch


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


def _host(x: Tensor) -> np.ndarray:
    array: np.ndarray = x.detach().cpu().numpy()
    return array

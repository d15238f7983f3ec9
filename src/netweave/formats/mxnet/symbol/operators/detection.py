"""Boxes: SSD's anchors, targets and detections, proposals of regions, and pooling over regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings

VARIANCES = (0.1, 0.1, 0.2, 0.2)


@operator_reader("_contrib_MultiBoxPrior", "MultiBoxPrior")
def multibox_prior(ctx: MXNetOperator) -> ir.Value:
    """Anchors around the centre of each cell, relative to the image: a constant (multibox_prior.cc, 1.5).

    Every size with the first ratio, then the first size with every other ratio. Computed in 32 bits and in
    MXNet's order: anchors of equal size within a box tie, and the last bit decides which is trained.
    """
    settings = ctx.settings
    sizes = settings.numbers("sizes", (1.0,))
    ratios = settings.numbers("ratios", (1.0,))
    clip = settings.flag("clip", False)
    steps = settings.numbers("steps", (-1.0, -1.0))
    offsets = settings.numbers("offsets", (0.5, 0.5))
    if not sizes or not ratios or len(steps) != 2 or len(offsets) != 2:
        raise ctx.read_error(
            f"'sizes' is {sizes}, 'ratios' {ratios}, 'steps' {steps}, 'offsets' {offsets}; expected one "
            "number or more of the first two, and two of the others"
        )
    if min(ratios) <= 0:
        raise ctx.read_error(f"'ratios' is {ratios}, expected numbers above 0: a box has an area")
    cells = ctx.sizes([2, 3])
    if 0 in cells:
        raise ctx.read_error(f"its input has {cells[0]}x{cells[1]} cells, expected one or more each way")
    single = np.float32
    pitch = [
        single(step) if step > 0 else single(1) / single(n) for step, n in zip(steps, cells, strict=True)
    ]
    y, x = (
        (ctx.arange(count).astype(single) + single(offset)) * step
        for count, offset, step in zip(cells, offsets, pitch, strict=True)
    )
    centres = np.stack(np.meshgrid(x, y), axis=-1)[:, :, None]
    pairs = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    size, root = (np.array(column, single) for column in zip(*pairs, strict=True))
    root = np.sqrt(root)
    half = np.stack([size * single(cells[0]) / single(cells[1]) * root, size / root], axis=-1) / single(2)
    boxes = np.concatenate([centres - half, centres + half], axis=-1).reshape(1, -1, 4)
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    return ctx.add("Identity", [ctx.array(boxes.astype(single))])


def _variances(ctx: MXNetOperator) -> list[float]:
    variances = ctx.settings.numbers("variances", VARIANCES)
    if len(variances) != 4:
        raise ctx.read_error(f"'variances' has {len(variances)} numbers, expected 4")
    return list(variances)


@operator_reader(
    "_contrib_MultiBoxTarget",
    "MultiBoxTarget",
    arguments=("anchor", "label", "cls_pred"),
    outputs=("loc_target", "loc_mask", "cls_target"),
    count=lambda settings: 3,
)
def multibox_target(ctx: MXNetOperator) -> Sequence[ir.Value]:
    """Return the targets of an SSD's heads for its anchors, given boxes with classes."""
    settings = ctx.settings
    settings.ignore("minimum_negative_samples")  # the kernel for a CPU never reads it
    attributes = {
        "overlap_threshold": settings.number("overlap_threshold", 0.5),
        "ignore_label": settings.number("ignore_label", -1.0),
        "negative_mining_ratio": settings.number("negative_mining_ratio", -1.0),
        "negative_mining_thresh": settings.number("negative_mining_thresh", 0.5),
        "variances": _variances(ctx),
    }
    anchors, scores = ctx.input("anchor"), ctx.input("cls_pred")
    labels = ctx.input("label", default=(ctx.shape(scores)[0], None, 5))
    inputs = [anchors, labels, scores]
    return ctx.add_many("MultiBoxTarget", inputs, attributes, outputs=3, domain=DOMAIN)


@operator_reader(
    "_contrib_MultiBoxDetection", "MultiBoxDetection", arguments=("cls_prob", "loc_pred", "anchor")
)
def multibox_detection(ctx: MXNetOperator) -> ir.Value:
    """Rows of class, score and corners from an SSD's heads."""
    settings = ctx.settings
    if settings.integer("background_id", 0) != 0:
        raise ctx.unsupported("'background_id' is not 0; MXNet treats class 0 as the background in any case")
    attributes = {
        "clip": int(settings.flag("clip", True)),
        "threshold": settings.number("threshold", 0.01),
        "nms_threshold": settings.number("nms_threshold", 0.5),
        "force_suppress": int(settings.flag("force_suppress", False)),
        "variances": _variances(ctx),
        "nms_topk": settings.integer("nms_topk", -1),
    }
    inputs = [ctx.input(name) for name in ("cls_prob", "loc_pred", "anchor")]
    return ctx.add("MultiBoxDetection", inputs, attributes, domain=DOMAIN)


@operator_reader("_contrib_box_nms", "_contrib_box_non_maximum_suppression")
def box_nms(ctx: MXNetOperator) -> ir.Value:
    """Rows of boxes that stay, best first (bounding_box.cc)."""
    settings = ctx.settings
    formats = ("corner", "center")
    attributes: dict[str, Any] = {
        "overlap_thresh": settings.number("overlap_thresh", 0.5),
        "valid_thresh": settings.number("valid_thresh", 0.0),
        "topk": settings.integer("topk", -1),
        "coord_start": settings.integer("coord_start", 2),
        "score_index": settings.integer("score_index", 1),
        "id_index": settings.integer("id_index", -1),
        "background_id": settings.integer("background_id", -1),
        "force_suppress": int(settings.flag("force_suppress", False)),
        "in_format": settings.choice("in_format", formats, "corner"),
        "out_format": settings.choice("out_format", formats, "corner"),
    }
    x = ctx.x
    columns = ctx.open_size(-1, x)
    last = max(attributes["coord_start"] + 3, attributes["score_index"], attributes["id_index"])
    if columns is not None and last >= columns:
        raise ctx.shape_error(f"its settings name column {last} of {columns}, counted from 0")
    return ctx.add("BoxNMS", [x], attributes, domain=DOMAIN)


def _regions(settings: Settings) -> int:
    return 2 if settings.flag("output_score", False) else 1


@operator_reader(
    "_contrib_Proposal",
    "_contrib_MultiProposal",
    "Proposal",
    "MultiProposal",
    arguments=("cls_prob", "bbox_pred", "im_info"),
    outputs=("output", "score"),
    count=_regions,
)
def proposal(ctx: MXNetOperator) -> Sequence[ir.Value]:
    """Regions from the heads of a region proposal network, and perhaps their scores."""
    settings = ctx.settings
    attributes: dict[str, Any] = {
        "rpn_pre_nms_top_n": settings.integer("rpn_pre_nms_top_n", 6000),
        "rpn_post_nms_top_n": settings.count("rpn_post_nms_top_n", 300),
        "threshold": settings.number("threshold", 0.7),
        "rpn_min_size": settings.integer("rpn_min_size", 16),
        "scales": list(settings.numbers("scales", (4.0, 8.0, 16.0, 32.0))),
        "ratios": list(settings.numbers("ratios", (0.5, 1.0, 2.0))),
        "feature_stride": settings.count("feature_stride", 16),
        "iou_loss": int(settings.flag("iou_loss", False)),
    }
    scores, deltas = ctx.input("cls_prob"), ctx.input("bbox_pred")
    info = ctx.input("im_info", default=(ctx.shape(scores)[0], 3))
    inputs, count = [scores, deltas, info], _regions(settings)
    return ctx.add_many("Proposal", inputs, attributes, outputs=count, domain=DOMAIN)


@operator_reader("ROIPooling", arguments=("data", "rois"))
def roi_pooling(ctx: MXNetOperator) -> ir.Value:
    """The largest of each bin of each region, rows of image and corners in pixels (roi_pooling.cc)."""
    settings = ctx.settings
    attributes = {
        "pooled_shape": list(settings.per_axis("pooled_size", 2, 1)),
        "spatial_scale": settings.number("spatial_scale"),
    }
    inputs = [ctx.x, ctx.input("rois", default=(None, 5))]
    return ctx.add("ROIPooling", inputs, attributes, domain=DOMAIN)

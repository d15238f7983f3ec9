"""Layers of Caffe that detect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from netweave.files.protobuf import Message
from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.layers.elementwise import normalization
from netweave.formats.caffe.priors import Grid, aspect_ratios, dense_priors, prior_boxes, prior_sizes
from netweave.formats.caffe.python_code import parse_settings
from netweave.graph import DOMAIN

# L is the number of boxes that a prior gets: 1, or one for each class where locations are not shared.

_LOWEST = -3.4028234663852886e38
"""The lowest float: Caffe's threshold where the file has none."""


@layer("PriorBox", bottoms=2)
def prior_box(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Boxes around the centre of each cell of the first bottom, relative to the image: a constant."""
    parameter = ctx.spec["prior_box_param"]
    sizes, shifts = _prior_sizes(ctx, parameter), list[tuple[float, float]]()
    if parameter["is_dense"]:
        sizes, shifts = dense_priors(parameter["min_size"])
    cells = (ctx.size(2), ctx.size(3))
    image = _pair(ctx, parameter, "img_size", "img_h", "img_w")
    height, width = image or (ctx.size(2, ctx.bottoms[1]), ctx.size(3, ctx.bottoms[1]))
    step = _pair(ctx, parameter, "step", "step_h", "step_w")
    steps = step or (height / cells[0], width / cells[1])
    grid = Grid(cells, (int(height), int(width)), steps, parameter["offset"])
    boxes = prior_boxes(
        grid, sizes, _variances(ctx, parameter), clip=parameter["clip"], shifts=shifts or ((0.0, 0.0),)
    )
    return [ctx.add("Identity", [ctx.constant(boxes)], top=0)]


def _prior_sizes(ctx: CaffeLayer, parameter: Message) -> Sequence[tuple[float, float]]:
    least, most = parameter["min_size"], parameter["max_size"]
    if not least or any(size < 1 for size in least):
        raise ctx.read_error(
            f"'min_size' is {list(least)}, expected at least one number, each 1 or more",
            parameter.line_of("min_size") or parameter.line,
        )
    if most and (len(most) != len(least) or any(b <= a for a, b in zip(least, most, strict=True))):
        raise ctx.read_error(
            f"'max_size' is {list(most)}, expected as many as 'min_size' ({list(least)}), each larger",
            parameter.line_of("max_size"),
        )
    if any(ratio <= 0 for ratio in parameter["aspect_ratio"]):
        raise ctx.read_error(
            f"'aspect_ratio' is {list(parameter['aspect_ratio'])}, expected numbers above 0",
            parameter.line_of("aspect_ratio"),
        )
    return prior_sizes(least, most, aspect_ratios(parameter["aspect_ratio"], flip=parameter["flip"]))


def _pair(
    ctx: CaffeLayer, parameter: Message, both: str, height: str, width: str
) -> tuple[float, float] | None:
    """Return a size that is given once or for each axis; None if it is not given."""
    if both in parameter and (height in parameter or width in parameter):
        raise ctx.read_error(f"has both {both!r} and {height!r} or {width!r}", parameter.line_of(both))
    names = (both, both) if both in parameter else (height, width)
    if not any(name in parameter for name in names):
        return None
    pair = tuple(parameter[name] for name in names)
    if any(size <= 0 for size in pair):
        raise ctx.read_error(f"{names[0]!r} and {names[1]!r} must be above 0, found {pair}", parameter.line)
    return pair[0], pair[1]


def _variances(ctx: CaffeLayer, parameter: Message) -> list[float]:
    given = list(parameter["variance"])
    if len(given) not in {0, 1, 4} or any(number <= 0 for number in given):
        raise ctx.read_error(
            f"'variance' is {given}, expected none, one or four numbers, each above 0",
            parameter.line_of("variance"),
        )
    return given if len(given) == 4 else (given or [0.1]) * 4


@layer("DetectionOutput", bottoms=(3, 4))
def detection_output(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Locations, scores and priors: the boxes are decoded, and those that stay are rows of seven numbers.

    A fourth bottom is the image that they are drawn into, which changes no number.
    """
    parameter = ctx.spec["detection_output_param"]
    num_priors = _num_priors(ctx)
    num_classes = _num_classes(ctx, parameter, num_priors)
    shared = parameter["share_location"]
    locations = ctx.reshape(ctx.x, [0, num_priors, 1 if shared else num_classes, 4])
    scores = ctx.reshape(ctx.bottoms[1], [0, num_priors, num_classes])
    boxes = decoded(
        ctx,
        locations,
        code_type=parameter["code_type"],
        scaled=not parameter["variance_encoded_in_target"],
    )
    nms = parameter["nms_param"]
    if not 0 < nms["eta"] <= 1:
        raise ctx.read_error(f"'eta' is {nms['eta']:g}, expected a number above 0, at most 1", nms.line)
    attributes: dict[str, Any] = {
        "background_label_id": parameter["background_label_id"],
        "confidence_threshold": parameter.get("confidence_threshold", _LOWEST),
        "nms_threshold": nms["nms_threshold"],
        "top_k": nms.get("top_k", -1),
        "keep_top_k": parameter["keep_top_k"],
        "eta": nms["eta"],
    }
    return [ctx.add("DetectionOutput", [boxes, scores], attributes, domain=DOMAIN, top=0)]


def _num_priors(ctx: CaffeLayer) -> int:
    if ctx.rank(ctx.bottoms[2]) < 3 or ctx.size(1, ctx.bottoms[2]) != 2 or ctx.size(2, ctx.bottoms[2]) % 4:
        raise ctx.shape_error(
            f"its third bottom has the shape {ctx.shape(ctx.bottoms[2])}, expected priors: (1, 2, 4 for each)"
        )
    return ctx.size(2, ctx.bottoms[2]) // 4


def _num_classes(ctx: CaffeLayer, parameter: Message, num_priors: int) -> int:
    """Return the number of classes, for which the sizes of locations and scores must be right."""
    classes: int = parameter["num_classes"]
    if classes < 1:
        raise ctx.read_error("has no 'num_classes'", parameter.line)
    boxes = num_priors if parameter["share_location"] else num_priors * classes
    for index, expected, what in ((0, 4 * boxes, "locations"), (1, num_priors * classes, "scores")):
        num_channels = ctx.size(1, ctx.bottoms[index])
        if num_channels != expected:
            raise ctx.shape_error(
                f"bottom {ctx.bottoms[index].name!r} has {num_channels} {what} for an image, expected "
                f"{expected} for {num_priors} priors and {classes} classes"
            )
    return classes


def decoded(ctx: CaffeLayer, locations: ir.Value, *, code_type: str, scaled: bool) -> ir.Value:
    """Return boxes as corners: ``bbox_util.cpp``, DecodeBBox.

    Args:
        ctx: The layer; its third bottom are the priors.
        locations: What the net says of each prior, (N, P, L, 4).
        code_type: ``CORNER``, ``CENTER_SIZE`` or ``CORNER_SIZE``.
        scaled: The locations are multiplied with the variances first.
    """
    num_priors = ctx.size(2, ctx.bottoms[2]) // 4
    both = ctx.reshape(ctx.bottoms[2], [2, num_priors, 1, 4])
    priors, variances = _halves(ctx, both, axis=0)
    delta = ctx.add("Mul", [locations, variances]) if scaled else locations
    if code_type == "CORNER":
        return ctx.add("Add", [priors, delta])
    low, high = _halves(ctx, priors, axis=-1)
    size = ctx.add("Sub", [high, low])
    if code_type == "CORNER_SIZE":
        sizes = ctx.concat([size, size], -1)
        return ctx.add("Add", [priors, ctx.add("Mul", [delta, sizes])])
    moves, growths = _halves(ctx, delta, axis=-1)
    half = ctx.constant(0.5)
    old_centre = ctx.add("Mul", [ctx.add("Add", [low, high]), half])
    centre = ctx.add("Add", [ctx.add("Mul", [moves, size]), old_centre])
    reach = ctx.add("Mul", [ctx.add("Mul", [ctx.add("Exp", [growths]), size]), half])
    corners = [ctx.add("Sub", [centre, reach]), ctx.add("Add", [centre, reach])]
    return ctx.concat(corners, -1)


def _halves(ctx: CaffeLayer, value: ir.Value, *, axis: int) -> tuple[ir.Value, ...]:
    attributes = {"axis": axis, "num_outputs": 2}
    return ctx.add_many("Split", [value], attributes, outputs=2)


_LOSS_SETTINGS = ("match_type", "overlap_threshold", "background_label_id", "neg_pos_ratio", "neg_overlap")
_LOSS_FLAGS = ("use_difficult_gt", "ignore_cross_boundary_bbox", "encode_variance_in_target")

_LOSS_UNREAD = {
    "use_prior_for_matching": True,
    "map_object_to_agnostic": False,
    "bp_inside": False,
}
"""Settings of MultiBoxLoss that are read at these values only."""


@layer("MultiBoxLoss", bottoms=4)
def multibox_loss(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Locations, scores before any softmax, priors and boxes of the truth: one number."""
    parameter = ctx.spec["multibox_loss_param"]
    _refuse_unread(ctx, parameter)
    _num_classes(ctx, parameter, _num_priors(ctx))
    passes_down = [*ctx.spec["propagate_down"], True, True][:2] if ctx.spec["propagate_down"] else [True] * 2
    attributes: dict[str, Any] = {
        "loc_loss": parameter["loc_loss_type"],
        "conf_loss": parameter["conf_loss_type"],
        "loc_weight": float(parameter["loc_weight"]) if passes_down[0] else 0.0,
        "conf_weight": float(passes_down[1]),
        "code_type": parameter["code_type"],
        "mining_type": parameter["mining_type"],
        "normalization": normalization(ctx, "VALID")["normalization"],
    }
    attributes |= {name: parameter[name] for name in _LOSS_SETTINGS}
    attributes |= {name: int(parameter[name]) for name in _LOSS_FLAGS}
    return [ctx.add("MultiBoxLoss", ctx.bottoms, attributes, domain=DOMAIN, top=0)]


def _refuse_unread(ctx: CaffeLayer, parameter: Message) -> None:
    for name, value in _LOSS_UNREAD.items():
        if parameter[name] != value:
            given, only = str(parameter[name]).lower(), str(value).lower()
            text = f"{name!r} is {given}, which is not supported; only {only} is"
            raise ctx.unsupported(text, parameter.line_of(name))
    if parameter["mining_type"] == "HARD_EXAMPLE" or "nms_param" in parameter:
        raise ctx.unsupported(
            "'mining_type' HARD_EXAMPLE and 'nms_param' are not supported; only NONE and MAX_NEGATIVE "
            "without 'nms_param' are",
            parameter.line_of("mining_type") or parameter.line_of("nms_param"),
        )
    mines = parameter["mining_type"] != "NONE"
    if parameter.get("do_neg_mining", mines) != mines:
        raise ctx.read_error(
            f"'do_neg_mining' conflicts with 'mining_type' {parameter['mining_type']}; remove it",
            parameter.line_of("do_neg_mining"),
        )
    if mines and not parameter["share_location"]:
        raise ctx.read_error(
            "hard negative mining needs 'share_location: true'", parameter.line_of("share_location")
        )
    if parameter["conf_loss_type"] == "LOGISTIC" and (not mines or parameter["background_label_id"]):
        raise ctx.unsupported(
            "'conf_loss_type' LOGISTIC is supported only with mining and background class 0; otherwise Caffe "
            "writes its targets to wrong places",
            parameter.line_of("conf_loss_type"),
        )


@layer("ROIPooling", bottoms=2)
def roi_pooling(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The largest of each bin of each region: the second bottom has rows of image and corners in pixels.

    A layer of the Faster R-CNN branch, ``roi_pooling_layer.cpp``.
    """
    parameter = ctx.spec["roi_pooling_param"]
    if parameter["pad_ratio"]:
        raise ctx.unsupported(
            "'pad_ratio' of the Cascade R-CNN branch is not supported", parameter.line_of("pad_ratio")
        )
    both = parameter["pooled_size"]
    pooled = [parameter["pooled_h"] or both, parameter["pooled_w"] or both]
    if not all(pooled):
        raise ctx.read_error(
            f"'pooled_h' and 'pooled_w' are {pooled}, expected numbers above 0", parameter.line
        )
    attributes = {"pooled_shape": pooled, "spatial_scale": parameter["spatial_scale"]}
    return [ctx.add("ROIPooling", [ctx.x, _regions(ctx)], attributes, domain=DOMAIN, top=0)]


@layer("PSROIPooling", bottoms=2)
def position_sensitive_pooling(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The mean of each bin of each region, over channels that are the bin's own.

    A layer of the R-FCN branch, ``psroi_pooling_layer.cu``.
    """
    parameter = ctx.spec["psroi_pooling_param"]
    attributes = {name: parameter[name] for name in ("output_dim", "group_size")}
    if min(attributes.values()) < 1:
        raise ctx.read_error(
            f"'output_dim' and 'group_size' are {list(attributes.values())}, expected numbers above 0",
            parameter.line,
        )
    attributes["spatial_scale"] = parameter["spatial_scale"]
    return [ctx.add("PSROIPooling", [ctx.x, _regions(ctx)], attributes, domain=DOMAIN, top=0)]


def _regions(ctx: CaffeLayer) -> ir.Value:
    """Return the second bottom as rows of image and corners."""
    if ctx.rank(ctx.bottoms[1]) > 2:
        return ctx.reshape(ctx.bottoms[1], [0, -1])
    return ctx.bottoms[1]


# Targets are drawn at random from boxes of the truth by the framework's own Python, for training alone:
# what these layers make is an input of the net here.

_NUM_RATIOS = 3
"""The anchors have three ratios, whatever their scales are."""

_LIMITS = {"TRAIN": (12000, 2000), "TEST": (6000, 300)}
"""config.py: how many boxes are looked at, and how many regions stay."""


@layer("rpn.proposal_layer.ProposalLayer", bottoms=3, tops=(1, 2))
def proposals(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Probabilities, locations and the size of the image: regions, best first, and perhaps their scores.

    By the settings of ``lib/fast_rcnn/config.py``, which a file does not hold: a smallest side of 16 pixels,
    an overlap of at most 0.7.
    """
    settings = _settings(ctx, "feat_stride", "scales")
    if "feat_stride" not in settings:
        raise _wrong(ctx, "has no 'feat_stride'")
    looked_at, most = _LIMITS[ctx.phase]
    attributes = {
        "feature_stride": _whole(ctx, settings, "feat_stride"),
        "scales": _scales(ctx, settings),
        "pre_nms_top_n": looked_at,
        "post_nms_top_n": most,
    }
    outputs = [*ctx.tops, ""][:2]
    made = ctx.add_many("RegionProposal", ctx.bottoms, attributes, domain=DOMAIN, outputs=outputs)
    return made[: len(ctx.tops)]


@layer("rpn.anchor_target_layer.AnchorTargetLayer", bottoms=4, tops=4)
def anchor_targets(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Return the targets of the anchors (labels, locations, two weights of these): inputs of the net here."""
    scales = _scales(ctx, _settings(ctx, "feat_stride", "scales", "allowed_border"))
    height, width, num_anchors = ctx.size(2), ctx.size(3), _NUM_RATIOS * len(scales)
    shapes = [(1, 1, num_anchors * height, width), *[(1, 4 * num_anchors, height, width)] * 3]
    return [
        ctx.builder.input(top, shape, batch=ctx.has_batch())
        for top, shape in zip(ctx.tops, shapes, strict=True)
    ]


@layer("rpn.proposal_target_layer.ProposalTargetLayer", bottoms=(2, 4), tops=5)
def proposal_targets(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Regions drawn from the proposals, with labels, locations and two weights; inputs of the net here."""
    settings = _settings(ctx, "num_classes")
    if "num_classes" not in settings:
        raise _wrong(ctx, "has no 'num_classes'")
    num_numbers = 4 * _whole(ctx, settings, "num_classes")
    regions = re.sub(r"\W", "_", f"{ctx.layer.key}_regions")
    return [
        ctx.builder.input(top, (regions, size), batch=False)
        for top, size in zip(ctx.tops, (5, 1, num_numbers, num_numbers, num_numbers), strict=True)
    ]


def _settings(ctx: CaffeLayer, *known: str) -> dict[str, Any]:
    try:
        settings = parse_settings(ctx.spec["python_param"]["param_str"])
    except ValueError as error:
        raise _wrong(ctx, str(error)) from error
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise _wrong(ctx, f"has {unknown[0]!r}, expected {', '.join(map(repr, known))} only")
    return settings


def _scales(ctx: CaffeLayer, settings: dict[str, Any]) -> list[float]:
    given = settings.get("scales", [8, 16, 32])
    if not isinstance(given, list) or not given or not all(_is_number(scale) for scale in given):
        raise _wrong(ctx, f"has the 'scales' {given!r:.80}, expected numbers above 0")
    return [float(scale) for scale in given]


def _whole(ctx: CaffeLayer, settings: dict[str, Any], name: str) -> int:
    value = settings[name]
    if not _is_number(value) or value != int(value):
        raise _wrong(ctx, f"has {name!r} {value!r:.80}, expected a whole number above 0")
    return int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6


def _wrong(ctx: CaffeLayer, message: str) -> Exception:
    return ctx.read_error(f"'param_str' {message}", ctx.spec["python_param"].line_of("param_str"))

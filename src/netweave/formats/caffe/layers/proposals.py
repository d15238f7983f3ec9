"""The Python layers of Faster R-CNN: regions from the heads of its proposal network, targets of training.

Targets are drawn at random from boxes of the truth by the framework's own Python, for training alone: what
these layers make is an input of the net here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.python_code import parse_settings
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

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
        found = parse_settings(ctx.spec["python_param"]["param_str"])
    except ValueError as error:
        raise _wrong(ctx, str(error)) from error
    unknown = [name for name in found if name not in known]
    if unknown:
        raise _wrong(ctx, f"has {unknown[0]!r}, expected {', '.join(map(repr, known))} only")
    return found


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

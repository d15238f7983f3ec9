"""The table of functions: which operator each computes, and the sizes of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Function:
    """A function for an operator.

    Attributes:
        op_type: The operator, of the domain ``netweave``.
        shapes: Sizes of its outputs from its inputs and settings, as a trace needs them; a size that depends
            on the data is 1 there.
    """

    op_type: str
    shapes: Callable[..., Sequence[Sequence[Any]]]


def _detected(boxes: Any, scores: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(1, 1, 1, 7)]


def _multibox(probabilities: Any, locations: Any, anchors: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(probabilities.shape[0], anchors.shape[1], 6)]


def _same(table: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [tuple(table.shape)]


def _proposed(scores: Any, deltas: Any, info: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    cells = scores.shape[2] * scores.shape[3] * (scores.shape[1] // 2)
    first = min(count, cells) if (count := settings.get("rpn_pre_nms_top_n", 6000)) > 0 else cells
    rows = scores.shape[0] * min(settings.get("rpn_post_nms_top_n", 300), first)
    return [(rows, 5), (rows, 1)]


def _chosen(scores: Any, deltas: Any, info: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(1, 5), (1, 1)]


def _by_position(x: Any, regions: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    group = settings["group_size"]
    return [(regions.shape[0], settings["output_dim"], group, group)]


def _pooled(x: Any, regions: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(regions.shape[0], x.shape[1], *settings["pooled_shape"])]


FUNCTIONS: Mapping[str, Function] = {
    "detection_output": Function("DetectionOutput", _detected),
    "multibox_detection": Function("MultiBoxDetection", _multibox),
    "box_nms": Function("BoxNMS", _same),
    "proposal": Function("Proposal", _proposed),
    "region_proposal": Function("RegionProposal", _chosen),
    "roi_pooling": Function("ROIPooling", _pooled),
    "psroi_pooling": Function("PSROIPooling", _by_position),
}
"""The functions that compute an operator, by their names."""

"""Layers of branches that judge what a net predicts, and do nothing else: a net is read without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message

MEASURES = frozenset(
    {
        "BboxAccuracy",
        "DetectionEvaluate",
        "DetectionGroupAccuracy",
        "EvalDetection",
        "SegAccuracy",
        "SegmentationEvaluate",
    }
)
"""Their types; each gives numbers for people, from a prediction and the truth."""


def without_measures(specs: Sequence[Message]) -> tuple[list[Message], tuple[str, ...], frozenset[str]]:
    """Return a net's layers but for those that measure it, a note on each of these, and what only they read.

    One whose top another layer reads stays, and is refused like any unknown layer.
    """
    read = {blob for spec in specs for blob in spec["bottom"]}
    left_out = [spec for spec in specs if spec["type"] in MEASURES and not read.intersection(spec["top"])]
    notes = tuple(
        f"layer {spec['name']!r} ({spec['type']}) measures what the net predicts and is left out"
        for spec in left_out
    )
    rest = [spec for spec in specs if spec not in left_out]
    still_read = {blob for spec in rest for blob in spec["bottom"]}
    measured = {blob for spec in left_out for blob in spec["bottom"]}
    return rest, notes, frozenset(measured - still_read)

"""Layers of branches that judge what a net predicts, and do nothing else: a net is read without them.

So is a net that predicts without losses of branches that are not supported; one that trains is refused with
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


LOSSES = frozenset(
    {"BoxAnnotatorOHEM", "CenterLoss", "RegionLoss", "SmoothL1LossOHEM", "SoftmaxWithLossOHEM"}
)
"""Types of losses, and of what only losses read, that are known by name and not read."""


def without_unlabelled(specs: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """Return a net's layers but for accuracies of labels that nothing brings, and a note on each of these.

    Whoever makes a net for prediction from one for training cuts off the data and often leaves the accuracy,
    which Caffe refuses.

    Args:
        specs: The layers, in the order of the file.
    """
    made = {blob for spec in specs for blob in spec["top"]}
    left_out = [spec for spec in specs if spec["type"] == "Accuracy" and not made.issuperset(spec["bottom"])]
    rest = [spec for spec in specs if spec not in left_out]
    if not left_out or not rest or any(set(spec["bottom"]) & _tops(left_out) for spec in rest):
        return list(specs), ()
    return rest, tuple(
        f"layer {spec['name']!r} (Accuracy) reads "
        f"{', '.join(repr(blob) for blob in spec['bottom'] if blob not in made)}, which no layer makes; "
        "it is left out"
        for spec in left_out
    )


def _tops(specs: Sequence[Message]) -> set[str]:
    return {blob for spec in specs for blob in spec["top"]}


def without_losses(specs: Sequence[Message], phase: str) -> tuple[list[Message], tuple[str, ...]]:
    """Return a net's layers but for losses that are not supported, and a note on each of these.

    One that a layer reads which stays is kept, and refused like any unknown layer; so are all of a net that
    trains, or that has nothing else.
    """
    left_out = [spec for spec in specs if spec["type"] in LOSSES] if phase != "TRAIN" else []
    while True:
        read = {blob for spec in specs if spec not in left_out for blob in spec["bottom"]}
        rest = [spec for spec in left_out if not read.intersection(spec["top"])]
        if len(rest) == len(left_out):
            break
        left_out = rest
    kept = [spec for spec in specs if spec not in left_out]
    if not any(spec["bottom"] for spec in kept):
        return list(specs), ()
    return kept, tuple(
        f"layer {spec['name']!r} ({spec['type']}) is for training and not supported; it is left out"
        for spec in left_out
    )


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

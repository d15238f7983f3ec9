"""Anchors for a detector, from the boxes of its images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.api.arguments import data_paths
from netweave.errors import UsageError
from netweave.formats.darknet.data_file import with_lists
from netweave.formats.darknet.job import anchor_unit, class_names
from netweave.training.boxes.anchors import cluster
from netweave.training.data.sources.boxes import LabelledImages

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE = 416
"""Width and height of a net's input where nobody says: those of most nets of YOLO."""


@dataclass(frozen=True, slots=True)
class AnchorResult:
    """Anchors as a ``.cfg`` has them.

    Attributes:
        anchors: Width and height of each, smallest first.
        unit: What they are in: ``pixels`` of the net's input (v3), or ``cells`` (v2).
        mean_iou: Mean overlap of a box with the anchor that it overlaps most.
        num_boxes: How many boxes they are of.
        num_images: In how many images.
    """

    anchors: tuple[tuple[float, float], ...]
    unit: str
    mean_iou: float
    num_boxes: int
    num_images: int

    def __str__(self) -> str:
        digits = 0 if self.unit == "pixels" else 2
        return "anchors = " + ", ".join(f"{w:.{digits}f},{h:.{digits}f}" for w, h in self.anchors)


def find_anchors(
    data: Mapping[str, str | Path] | str | Path,
    count: int,
    *,
    net: str | Path | None = None,
    seed: int = 0,
) -> AnchorResult:
    """Return the anchors that the boxes of a data set overlap most, by k-means with 1 - IoU as distance.

    Args:
        data: Where images are, as for ``load_job``; the boxes of training are taken.
        count: How many anchors.
        net: The ``.cfg`` that they are for: in pixels of its input (v3), or in its cells (v2). By default in
            pixels of an input of 416 x 416.
        seed: Of what is drawn.

    Raises:
        SourceError: Files cannot be read, or labels are wrong.
        UsageError: There are no images to train on, or fewer different boxes than anchors.
    """
    images = with_lists(data_paths(data))
    if images.train is None:
        raise UsageError(f"{images.place}: has no images to train on; give train=LIST")
    unit, scale = ("pixels", (SIZE, SIZE)) if net is None else anchor_unit(Path(net))
    names = class_names(images)
    with LabelledImages(
        str(images.train), len(names) or 1 << 20, names, str(images.root), difficult=False
    ) as source:
        rows = np.concatenate(source.boxes_of)
    found = cluster(rows[:, 2:4].astype(np.float64), count, seed=seed)
    sizes = found.sizes * np.array(scale)
    return AnchorResult(
        tuple((float(width), float(height)) for width, height in sizes),
        unit,
        found.mean_iou,
        found.num_boxes,
        len(source),
    )

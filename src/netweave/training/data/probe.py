"""Sizes of what a source holds, before anything is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import NetweaveError, ReadError
from netweave.graph.ops.multibox_loss import TRUTH_COLUMNS as DETECTION_COLUMNS
from netweave.training.data.source import open_source
from netweave.training.data.transform import Pipeline

if TYPE_CHECKING:
    from netweave.job import DataSource


def probe(source: DataSource) -> dict[str, tuple[int, ...]]:
    """Return the sizes of a batch of a source, by output.

    Raises:
        ReadError: The source cannot be opened, or its first record not be transformed.
    """
    try:
        with open_source(source) as opened:
            first, *rest = opened.peek()
            generator = np.random.default_rng(0)
            shape = Pipeline(source.transforms).shape(first, generator, lambda: opened.describe(0))
            images, pixel_labels, truth_rows = opened.images, opened.pixel_labels, opened.truth_rows
    except NetweaveError as error:
        raise ReadError(str(error), place=source.place) from error
    if pixel_labels:
        rest[0] = np.empty((1, *shape[:2]))
    if truth_rows:
        image, label = source.outputs
        rows = source.batch_size * len(rest[0])
        return {image: (source.batch_size, shape[2], *shape[:2]), label: (1, 1, rows, DETECTION_COLUMNS)}
    shapes = ((shape[2], *shape[:2]) if images else shape, *(np.shape(part) for part in rest))
    return {name: (source.batch_size, *sizes) for name, sizes in zip(source.outputs, shapes, strict=False)}


def probe_if_there(source: DataSource) -> dict[str, tuple[int, ...]]:
    """Return the sizes of a batch of a source, by output; none if it cannot be opened."""
    try:
        return probe(source)
    except ReadError:
        return {}

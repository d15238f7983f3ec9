"""Prior boxes of Caffe's detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


_SAME_RATIO = 1e-6
"""As in the SSD branch (``prior_box_layer.cpp``): ratios that are nearer are one."""


def aspect_ratios(given: Sequence[float], *, flip: bool) -> list[float]:
    """Return the ratios of width to height: 1, then each new one of those given, and its reciprocal.

    >>> aspect_ratios([2.0, 1.0, 0.5, 4.0], flip=True)
    [1.0, 2.0, 0.5, 4.0, 0.25]
    """
    ratios_used = [1.0]
    for ratio in given:
        if all(abs(ratio - known) >= _SAME_RATIO for known in ratios_used):
            ratios_used += [ratio, 1 / ratio] if flip else [ratio]
    return ratios_used


def prior_sizes(
    min_sizes: Sequence[float], max_sizes: Sequence[float], ratios: Sequence[float]
) -> list[tuple[float, float]]:
    """Return width and height of the boxes of one cell, in pixels of the image.

    Args:
        min_sizes: Caffe drops what is behind the point.
        max_sizes: As many, or none; likewise.
        ratios: As ``aspect_ratios`` gives them.

    >>> prior_sizes([30.0], [120.9], [1.0, 4.0])
    [(30, 30), (60.0, 60.0), (60.0, 15.0)]
    """
    sizes: list[tuple[float, float]] = []
    for least, most in zip_longest(map(int, min_sizes), map(int, max_sizes)):
        sizes.append((least, least))
        if most is not None:
            sizes.append((sqrt(least * most),) * 2)
        roots = [sqrt(ratio) for ratio in ratios if abs(ratio - 1) >= _SAME_RATIO]
        sizes += [(least * root, least / root) for root in roots]
    return sizes


_DENSE = {32: (4, 8), 64: (2, 16)}
"""FaceBoxes' fork: how many boxes of a size there are along each axis of a cell, and the step from one to the
next."""


def dense_priors(min_sizes: Sequence[float]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return sizes and shifts (x, y) of the boxes of one cell where small ones stand close together.

    FaceBoxes' fork of the SSD branch (``prior_box_layer.cpp`` there): row by row around the centre, and each
    corner half a pixel further inside.

    >>> sizes, shifts = dense_priors([32.0, 64.0, 128.0])
    >>> len(sizes), sizes[-1], shifts[1], shifts[-2]
    (21, (127, 127), (-8, -16), (0, 0))
    """
    sizes, shifts = list[tuple[float, float]](), list[tuple[float, float]]()
    for size in map(int, min_sizes):
        count, step = _DENSE.get(size, (1, 0))
        places = [step * (index - count // 2) for index in range(count)]
        shifts += [(x, y) for y in places for x in places]
        sizes += [(size - 1, size - 1)] * count**2
    return sizes, shifts


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a feature map in the image: sizes and steps are (height, width), in pixels."""

    cells: tuple[int, int]
    image: tuple[int, int]
    step: tuple[float, float]
    offset: float


def prior_boxes(
    grid: Grid,
    sizes: Sequence[tuple[float, float]],
    variances: Sequence[float],
    *,
    clip: bool,
    shifts: Sequence[tuple[float, float]] = ((0.0, 0.0),),
) -> np.ndarray:
    """Return boxes and variances as Caffe lays them out: (1, 2, H * W * P * 4).

    Args:
        grid: The cells, row by row.
        sizes: Width and height of the P boxes of a cell.
        variances: Four numbers for every box.
        clip: Move corners outside of the image to its border.
        shifts: How far the centre of each box of a cell is from that of the cell, (x, y) in pixels.
    """
    y, x = (
        (np.arange(cells) + grid.offset) * step for cells, step in zip(grid.cells, grid.step, strict=True)
    )
    centres = np.stack(np.meshgrid(x, y), axis=-1)[:, :, None, :] + np.array(shifts, np.float64)
    half = np.array(sizes, np.float64) / 2
    boxes = np.concatenate([centres - half, centres + half], axis=-1) / np.tile(grid.image[::-1], 2)
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    rows = [boxes, np.broadcast_to(np.asarray(variances, np.float64), boxes.shape)]
    return np.stack([row.reshape(-1) for row in rows])[None].astype(np.float32)


# Its PriorBox has no setting of its own: three sizes make 21 boxes of each cell, since small ones stand
# close together. In the SSD branch they make three, and no net whose filters say 21 could be run there.

NUM_SIZES = 3
"""With so many sizes, and none besides, a cell has ``NUM_BOXES`` in the fork."""

NUM_BOXES = 21


def mark_dense_priors(specs: Sequence[Message]) -> tuple[str, ...]:
    """Mark the PriorBox layers that are FaceBoxes', in place, and return a note on them.

    Args:
        specs: The layers of the net.
    """
    dense = [spec for spec in specs if spec["type"] == "PriorBox" and _is_dense(spec, specs)]
    for spec in dense:
        if not spec["prior_box_param"]["is_dense"]:
            spec["prior_box_param"].put("is_dense", True)
    if not dense:
        return ()
    names = ", ".join(repr(spec["name"]) for spec in dense)
    return (f"the priors of {names} are read as those of FaceBoxes' fork, {NUM_BOXES} for each cell",)


def _is_dense(spec: Message, specs: Sequence[Message]) -> bool:
    parameter = spec["prior_box_param"]
    if len(parameter["min_size"]) != NUM_SIZES or parameter["max_size"] or parameter["aspect_ratio"]:
        return False
    reads = spec["bottom"][:1]
    widths = {
        each["convolution_param"]["num_output"]
        for each in specs
        if each["type"] == "Convolution" and each["bottom"] == reads
    }
    return 4 * NUM_BOXES in widths and 4 * NUM_SIZES not in widths

"""Anchors and heads of detectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netweave.errors import UsageError
from netweave.graph import Graph, Layer, known_shape
from netweave.graph.ops.box_geometry import intersection_over_union
from netweave.graph.ops.detection import best_first, suppress
from netweave.training.boxes.scores import Detections

MOST_ROUNDS = 1000
"""Rounds after which clustering ends in any case; it ends of itself as a rule after some tens."""

RESTARTS = 10
"""So often clustering begins anew; the best end counts."""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Sizes of boxes.

    Attributes:
        sizes: Width and height of each relative to the image, smallest area first, (K, 2).
        mean_iou: Mean overlap of a box with the anchor that it overlaps most, about the same centre.
        num_boxes: How many boxes they are of.
    """

    sizes: np.ndarray
    mean_iou: float
    num_boxes: int


def cluster(sizes: np.ndarray, count: int, *, seed: int = 0) -> Anchors:
    """Return the anchors that boxes overlap most: k-means, where 1 - IoU is the distance.

    The first centres are drawn as k-means++ draws them; a centre is the median of its boxes' sizes.

    Args:
        sizes: Widths and heights, (number, 2).
        count: How many anchors.
        seed: Of what is drawn.

    Raises:
        UsageError: There are fewer different boxes than anchors.
    """
    different = len(np.unique(sizes, axis=0))
    if count < 1 or different < count:
        raise UsageError(f"cannot find {count} anchors: boxes have {different} different sizes")
    generator = np.random.default_rng(seed)
    ends = [_rounds(sizes, _first(sizes, count, generator)) for _ in range(RESTARTS)]
    best = max(ends, key=lambda centres: mean_overlap(sizes, centres))
    best = best[np.argsort(best.prod(axis=1), kind="stable")]
    return Anchors(best, mean_overlap(sizes, best), len(sizes))


def shape_overlaps(sizes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the overlap of each size with each of the others, about the same centre."""
    boxes, other_boxes = (np.concatenate([-ends, ends], axis=1) / 2 for ends in (sizes, others))
    return np.asarray(intersection_over_union(boxes[:, None], other_boxes[None], np))


def mean_overlap(sizes: np.ndarray, anchors: np.ndarray) -> float:
    """Return the mean overlap of each size with its best anchor."""
    return float(shape_overlaps(sizes, anchors).max(axis=1).mean())


def _first(sizes: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw first centres, each far from those before."""
    centres = sizes[[int(generator.integers(len(sizes)))]]
    while len(centres) < count:
        squares = (1.0 - shape_overlaps(sizes, centres).max(axis=1)) ** 2
        chosen = generator.choice(len(sizes), p=squares / squares.sum())
        centres = np.concatenate([centres, sizes[[chosen]]])
    return centres


def _rounds(sizes: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the centres on which the rounds settle; a cluster that has become empty keeps its centre."""
    nearest = None
    for _ in range(MOST_ROUNDS):
        moved = shape_overlaps(sizes, centres).argmax(axis=1)
        if nearest is not None and (moved == nearest).all():
            break
        nearest = moved
        centres = np.stack(
            [
                np.median(sizes[nearest == number], axis=0) if (nearest == number).any() else centre
                for number, centre in enumerate(centres)
            ]
        )
    return centres


# Readers give YOLO's heads as Darknet's layers make them; boxes need a threshold, which is no part of a
# net. Decoding follows ``get_yolo_box`` and ``get_region_box``, and the choice ``do_nms_sort`` of Darknet:
# class by class, a box goes that overlaps a better one too much.

_ROWS = {"DetectionOutput": True, "MultiBoxDetection": False}
"""Operators whose rows are boxes; of some the first number is the image."""


def find_boxes(
    graph: Graph, outputs: Mapping[str, np.ndarray], *, threshold: float, overlap: float
) -> Detections:
    """Return the boxes that the outputs of a net say, with corners relative to its input.

    Args:
        graph: A net of Darknet with heads of YOLO v2 to v4, or one whose outputs are SSD's rows.
        outputs: Its outputs by name.
        threshold: A box is of a class if its score is larger than this.
        overlap: Of YOLO, the largest overlap with a better box of its class; SSD's rows are chosen already.

    Raises:
        UsageError: The net has no such outputs.
    """
    tables = [_of_rows(outputs[value.name or ""], value) for value in graph.outputs if _gives_rows(value)]
    heads = [layer for layer in graph.layers.values() if layer.type in _DECODERS]
    images = [value for value in graph.outputs if len(known_shape(value) or ()) == 4]
    if heads and len(heads) == len(images):  # a net that is tested gives losses, too
        arrays = [outputs[value.name or ""] for value in images]
        tables = [_of_heads(graph, heads, arrays, threshold, overlap)]
    if not tables:
        raise UsageError(
            f"{graph.name}: no output contains boxes, expected heads of Darknet ({', '.join(_DECODERS)}), or "
            f"rows of {' or '.join(_ROWS)}"
        )
    rows = np.concatenate(tables)
    rows = rows[rows[:, 2] > threshold]
    order = np.lexsort((-rows[:, 2], rows[:, 1], rows[:, 0]))
    image, label, score, *_ = rows[order].T
    return Detections(image.astype(np.int64), label.astype(np.int64), score, rows[order, 3:])


def _gives_rows(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.domain == "netweave" and node.op_type in _ROWS


def _of_rows(array: np.ndarray, value: ir.Value) -> np.ndarray:
    """Return rows of image, class, score and corners; class -1 is no box."""
    node = value.producer()
    assert node is not None
    if not _ROWS[node.op_type]:
        image = np.repeat(np.arange(len(array)), array.shape[1])[:, None]
        array = np.concatenate([image, array.reshape(-1, 6)], axis=1)
    rows = array.reshape(-1, 7).astype(np.float64)
    return rows[rows[:, 1] >= 0]


@dataclass(frozen=True, slots=True)
class _Head:
    """A head of YOLO.

    Attributes:
        cells: What it gives out, (N, H, W, A, 5 + C).
        anchors: Width and height of each of its A anchors, in the unit of the file.
        size: Width and height of the net's input.
        new_coords: Whether sizes are squares instead of exponentials (v4's scaled nets).
    """

    cells: np.ndarray
    anchors: np.ndarray
    size: tuple[int, int]
    new_coords: bool


def _head(graph: Graph, layer: Layer, array: np.ndarray) -> _Head:
    settings = {name: str(text) for name, text in layer.settings.items()}
    anchors = np.array(_numbers(settings.get("anchors", ""))).reshape(-1, 2)
    mask = [int(number) for number in _numbers(settings.get("mask", ""))]
    num = len(mask) or int(settings.get("num", 1))
    wanted = mask or list(range(num))
    if not 0 <= min(wanted) <= max(wanted) < len(anchors):
        raise UsageError(f"{layer.place}: has {len(anchors)} anchors, expected {max(wanted) + 1} or more")
    images, channels, height, width = array.shape
    cells = array.reshape(images, num, channels // num, height, width).transpose(0, 3, 4, 1, 2)
    shape = known_shape(graph.inputs[0]) or ()
    size = (int(shape[3] or 0), int(shape[2] or 0))
    return _Head(cells.astype(np.float64), anchors[wanted], size, settings.get("new_coords", "0") != "0")


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.replace(",", " ").split()]


def _yolo_sizes(head: _Head) -> np.ndarray:
    """Return widths and heights: anchors are in pixels of the net's input (v3, v4)."""
    raw = head.cells[..., 2:4]
    growth = (2 * raw) ** 2 if head.new_coords else np.exp(raw)
    return np.asarray(growth * head.anchors / np.array(head.size))


def _region_sizes(head: _Head) -> np.ndarray:
    """Return widths and heights: anchors are in cells (v2)."""
    height, width = head.cells.shape[1:3]
    return np.asarray(np.exp(head.cells[..., 2:4]) * head.anchors / np.array([width, height]))


_DECODERS = {"yolo": _yolo_sizes, "region": _region_sizes}
"""Sizes of boxes by the type of the head."""


def _decoded(layer: Layer, head: _Head) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes (N, P, 4) and scores (N, P, C), cell by cell and anchor by anchor."""
    images, height, width = head.cells.shape[:3]
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1)[:, :, None]
    centres = (head.cells[..., :2] + places) / np.array([width, height])
    half = _DECODERS[layer.type](head) / 2
    boxes = np.concatenate([centres - half, centres + half], axis=-1)
    scores = head.cells[..., 4:5] * head.cells[..., 5:]
    return boxes.reshape(images, -1, 4), scores.reshape(images, -1, scores.shape[-1])


def _of_heads(
    graph: Graph, layers: list[Layer], arrays: list[np.ndarray], threshold: float, overlap: float
) -> np.ndarray:
    """Return rows of image, class, score and corners from all heads of a net together."""
    pairs = [_decoded(layer, _head(graph, layer, array)) for layer, array in zip(layers, arrays, strict=True)]
    boxes, scores = (np.concatenate(parts, axis=1) for parts in zip(*pairs, strict=True))
    rows = []
    for image, label in np.ndindex(len(scores), scores.shape[2]):
        likely = scores[image, :, label]
        order = best_first(likely, above=threshold, most=-1)
        kept = suppress(boxes[image], order, threshold=overlap)
        rows += [(image, label, likely[box], *boxes[image, box]) for box in kept]
    return np.array(rows, np.float64).reshape(-1, 7)

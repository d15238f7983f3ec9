"""From what a net gives out to boxes: YOLO's heads are decoded, rows of SSD's last layers taken apart.

Readers give YOLO's heads as Darknet's layers make them; boxes need a threshold, which is no part of a net.
Decoding follows ``get_yolo_box`` and ``get_region_box``, and the choice ``do_nms_sort`` of Darknet: class by
class, a box goes that overlaps a better one too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import UsageError
from netweave.graph import known_shape
from netweave.graph.ops.boxes import best_first, suppress
from netweave.training.boxes.tables import Detections

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

    from netweave.graph import Graph, Layer

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

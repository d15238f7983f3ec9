"""Regions of YOLO and their loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, operator
from netweave.graph.ops.box_geometry import mean_bins, region_bins
from netweave.graph.ops.detection import overlaps

# ONNX has the former, ONNX Runtime lacks it in the opset of our graphs.

Bin = tuple[int, int]
"""Where a bin begins, and what it ends before."""


def _shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    x, regions = shapes
    if len(x) != 4 or len(regions) != 2 or regions[1] != 5:
        raise ValueError("expected an input (N, C, H, W) and regions (R, 5): image and corners")
    return [(regions[0], x[1], *attributes["pooled_shape"])]


def _cells(
    x: np.ndarray, regions: np.ndarray, attributes: Attributes
) -> Iterator[tuple[tuple[int, int, int], int, Bin, Bin]]:
    """Give for each bin that is not empty its place (region, row, column), image, rows and columns."""
    height, width = attributes["pooled_shape"]
    for number, (image, *borders) in enumerate(regions.tolist()):
        left, top, right, bottom = (border * attributes["spatial_scale"] for border in borders)
        for i, rows in enumerate(region_bins(top, bottom, height, x.shape[2])):
            for j, columns in enumerate(region_bins(left, right, width, x.shape[3])):
                if rows[0] < rows[1] and columns[0] < columns[1]:
                    yield (number, i, j), int(image), rows, columns


def _gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return the gradient: of several largest cells of a bin the first gets all; regions get none."""
    x, regions = inputs
    to_x = np.zeros_like(x)
    channels = np.arange(x.shape[1])
    for (number, i, j), image, (y0, y1), (x0, x1) in _cells(x, regions, attributes):
        largest = x[image, :, y0:y1, x0:x1].reshape(len(channels), -1).argmax(axis=1)
        rows, columns = np.divmod(largest, x1 - x0)
        to_x[image, channels, y0 + rows, x0 + columns] += gradients[0][number, :, i, j]
    return [to_x, None]


@operator("ROIPooling", shapes=_shapes, gradient=_gradient)
def roi_pooling(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe roi_pooling_layer.cpp, MXNet roi_pooling.cc: the largest of each bin, 0 for an empty one.

    Inputs: (N, C, H, W) and regions (R, 5): image and corners in pixels. Attributes: ``pooled_shape``
    (height, width), ``spatial_scale`` from pixels to cells.
    """
    x, regions = inputs
    pooled = np.zeros((len(regions), x.shape[1], *attributes["pooled_shape"]), x.dtype)
    for (number, i, j), image, (y0, y1), (x0, x1) in _cells(x, regions, attributes):
        pooled[number, :, i, j] = x[image, :, y0:y1, x0:x1].max(axis=(1, 2))
    return [pooled]


def _position_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    x, regions = shapes
    group, num_outputs = attributes["group_size"], attributes["output_dim"]
    if len(x) != 4 or len(regions) != 2 or regions[1] != 5:
        raise ValueError("expected an input (N, C, H, W) and regions (R, 5): image and corners")
    if x[1] != num_outputs * group * group:
        raise ValueError(
            f"{x[1]} channels, expected {num_outputs * group * group}: {num_outputs} for each of "
            f"{group}x{group} bins"
        )
    return [(regions[0], num_outputs, group, group)]


def _planes(x: np.ndarray, attributes: Attributes) -> np.ndarray:
    """Return the planes as (N, D, G, G, H, W)."""
    group = attributes["group_size"]
    return x.reshape(x.shape[0], attributes["output_dim"], group, group, *x.shape[2:])


def _mean_cells(
    planes: np.ndarray, regions: np.ndarray, attributes: Attributes
) -> Iterator[tuple[tuple[int, int, int], int, Bin, Bin]]:
    """Give for each bin that is not empty its place (region, row, column), image, rows and columns."""
    group, scale = attributes["group_size"], attributes["spatial_scale"]
    for number, (image, left, top, right, bottom) in enumerate(regions.tolist()):
        columns = mean_bins(left, right, group, planes.shape[5], scale=scale)
        for i, rows in enumerate(mean_bins(top, bottom, group, planes.shape[4], scale=scale)):
            for j, (x0, x1) in enumerate(columns):
                if rows[0] < rows[1] and x0 < x1:
                    yield (number, i, j), int(image), rows, (x0, x1)


def _position_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Each cell of a bin gets an equal share; regions get none."""
    to_planes = _planes(np.zeros_like(inputs[0]), attributes)
    for (number, i, j), image, (y0, y1), (x0, x1) in _mean_cells(to_planes, inputs[1], attributes):
        share = gradients[0][number, :, i, j] / ((y1 - y0) * (x1 - x0))
        to_planes[image, :, i, j, y0:y1, x0:x1] += share[:, None, None]
    return [to_planes.reshape(inputs[0].shape), None]


@operator("PSROIPooling", shapes=_position_shapes, gradient=_position_gradient)
def position_sensitive_pooling(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """R-FCN psroi_pooling_layer.cu: the mean of each bin over channels of its own, 0 for an empty one.

    Inputs: (N, D * G * G, H, W), the bins of an output one after the other, and regions (R, 5): image and
    corners in pixels. Attributes: ``output_dim`` D, ``group_size`` G, ``spatial_scale`` from pixels to cells.
    """
    planes = _planes(inputs[0], attributes)
    pooled = np.zeros((len(inputs[1]), *planes.shape[1:4]), planes.dtype)
    for (number, i, j), image, (y0, y1), (x0, x1) in _mean_cells(planes, inputs[1], attributes):
        pooled[number, :, i, j] = planes[image, :, i, j, y0:y1, x0:x1].mean(axis=(1, 2))
    return [pooled]


# N images, A anchors in a head, C classes, cells of H x W. Boxes are Darknet's: centre, width and height,
# relative to the image. ``delta`` is Darknet's too: the negative gradient with respect to the input of the
# layer, summed over the batch. Its cost, the sum of the squares of ``delta``, is not the integral of it.

Arrays = Sequence[np.ndarray]
Gradients = Sequence[np.ndarray | None]
Shapes = Sequence[tuple[Dim, ...]]

TRUTH_COLUMNS = 6
"""Of a ground-truth box: centre x and y, width, height, class, difficult. A centre x of 0 ends an image's."""

STATISTICS = ("Avg IOU", "Class", "Obj", "No Obj", ".5R", ".75R", "count")
"""What Darknet prints of a head: means over the boxes that it is responsible for, but for the last."""

WARM_UP_IMAGES = 12800
"""Until so many images have been seen, region layers pull every box towards its anchor."""

YOLO_DEFAULTS = {"mask": (), "ignore_thresh": 0.5, "truth_thresh": 1.0}
REGION_DEFAULTS = {
    "softmax": 0,
    "bias_match": 0,
    "rescore": 0,
    "thresh": 0.5,
    "coord_scale": 1.0,
    "object_scale": 1.0,
    "noobject_scale": 1.0,
    "class_scale": 1.0,
    "seen": 0,
    "update_images": 1,
    "pass_images": 1,
}


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return the logistic function, which does not overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, e) / (1.0 + e))


@dataclass(frozen=True, slots=True)
class Head:
    """One head over a batch, and the difference from what it should have said.

    Attributes:
        output: What the layer gives out, (N, A, 5 + C, H, W) in float64.
        boxes: Corners of the predicted boxes, (N, A, H, W, 4).
        anchors: Widths and heights of the anchors relative to the image, (A, 2).
        delta: As ``output``.
        matched: Of each box that it is responsible for: overlap, score of its class, objectness.
    """

    output: np.ndarray
    boxes: np.ndarray
    anchors: np.ndarray
    delta: np.ndarray
    matched: list[tuple[float, float, float]]

    @staticmethod
    def of(x: np.ndarray, anchors: np.ndarray, classes: int, *, softmax: bool) -> Head:
        """Return the head of a layer's input.

        Args:
            x: (N, A * (5 + C), H, W).
            anchors: Relative to the image, (A, 2).
            classes: Number of classes.
            softmax: Whether classes exclude each other.
        """
        images, _, height, width = x.shape
        output = x.astype(np.float64).reshape(images, len(anchors), 5 + classes, height, width)
        output[:, :, :2] = sigmoid(output[:, :, :2])
        output[:, :, 4] = sigmoid(output[:, :, 4])
        scores = output[:, :, 5:]
        output[:, :, 5:] = _softmax(scores) if softmax else sigmoid(scores)
        rows, columns = np.indices((height, width))
        with np.errstate(over="ignore"):  # a net that diverges: the loss says so
            size = np.exp(output[:, :, 2:4]) * anchors[None, :, :, None, None]
        centre = (output[:, :, :2] + np.stack([columns, rows])) / _extent(width, height)
        boxes = np.concatenate([centre - size / 2, centre + size / 2], axis=2).transpose(0, 1, 3, 4, 2)
        return Head(output, boxes, anchors, np.zeros_like(output), [])

    def best_overlaps(self, image: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest overlap of each predicted box, (A, H, W), and the box that it is with."""
        if not len(truth):
            return np.zeros(self.boxes.shape[1:4]), np.zeros(self.boxes.shape[1:4], np.int64)
        common = overlaps(self.boxes[image][..., None, :], corners(truth))
        return common.max(axis=-1), common.argmax(axis=-1)

    def cell_of(self, box: np.ndarray) -> tuple[int, int]:
        """Return the row and column of the cell in which a box has its centre.

        In float32, as Darknet rounds; a centre on the far edge, for which it writes beyond its array, is in
        the last cell.
        """
        height, width = self.output.shape[3:]
        row = int(np.float32(box[1]) * np.float32(height))
        column = int(np.float32(box[0]) * np.float32(width))
        return min(row, height - 1), min(column, width - 1)

    def pull_box(self, cell: tuple[int, int, int, int], box: np.ndarray, scale: float) -> float:
        """Set the delta of a predicted box to what leads to a box, and return their overlap.

        Args:
            cell: Image, anchor, row and column.
            box: Centre and size.
            scale: Factor on the delta.
        """
        image, anchor, row, column = cell
        height, width = self.output.shape[3:]
        place = box[:2] * (width, height) - (column, row)
        target = np.concatenate([place, np.log(box[2:4] / self.anchors[anchor])])
        self.delta[image, anchor, :4, row, column] = scale * (
            target - self.output[image, anchor, :4, row, column]
        )
        return float(overlaps(self.boxes[cell], corners(box)))

    def pull_class(
        self, cell: tuple[int, int, int, int], label: int, scale: float = 1.0, *, joins: bool
    ) -> float:
        """Set the delta of the class scores, and return the score of the class.

        Args:
            cell: Image, anchor, row and column.
            label: The class.
            scale: Factor on the delta.
            joins: Whether a cell may be of several classes: one that has a delta gets a further class.
        """
        image, anchor, row, column = cell
        scores = self.output[image, anchor, 5:, row, column]
        delta = self.delta[image, anchor, 5:, row, column]
        if not (joins and delta[0]):
            delta[...] = -scale * scores
        delta[label] = scale * (1.0 - scores[label])
        return float(scores[label])

    def statistics(self) -> np.ndarray:
        """Return the numbers of ``STATISTICS``; 0 where the head is responsible for no box."""
        overlap, score, objectness = np.array(self.matched, np.float64).reshape(-1, 3).T
        count = len(overlap)
        sums = [overlap.sum(), score.sum(), objectness.sum(), (overlap > 0.5).sum(), (overlap > 0.75).sum()]
        means = np.array(sums) / max(count, 1)
        return np.array([*means[:3], self.output[:, :, 4].mean(), *means[3:], count])


def corners(boxes: np.ndarray) -> np.ndarray:
    """Return the corners of boxes of centre and size."""
    half = boxes[..., 2:4] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)


def kept_truth(truth: np.ndarray, classes: int) -> np.ndarray:
    """Return the ground-truth boxes of an image, up to the first whose centre x is 0.

    Raises:
        RunError: One is of a class that there is not.
    """
    ends = np.flatnonzero(truth[:, 0] == 0)
    rows = truth[: ends[0]] if len(ends) else truth
    labels = rows[:, 4]
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        raise RunError(
            f"a ground-truth box has the class {labels[wrong][0]:g}, expected 0 to {classes - 1}, as the "
            "layer's 'classes' says"
        )
    return rows.astype(np.float64)


def _extent(width: int, height: int) -> np.ndarray:
    return np.array([width, height], np.float64)[:, None, None]


def _softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(e / e.sum(axis=2, keepdims=True))


def _shape_overlaps(sizes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return the overlaps of a box with boxes of some widths and heights about the same centre."""
    centred = np.concatenate([np.zeros_like(sizes), sizes], axis=-1)
    return overlaps(corners(centred), corners(np.array([0.0, 0.0, *box[2:4]])))


def yolo_delta(x: np.ndarray, truth: np.ndarray, s: Attributes) -> Head:
    """Return the head of a YOLO layer with its delta: ``forward_yolo_layer`` of v3.

    Args:
        x: (N, A * (5 + C), H, W).
        truth: (N, boxes, 6), see ``TRUTH_COLUMNS``.
        s: ``anchors`` in pixels of the net's input of ``width`` x ``height``, those of all heads; ``mask``,
            which of them this head has; ``classes``; and ``YOLO_DEFAULTS``.

    Raises:
        RunError: A box is of a class that there is not.
    """
    anchors = np.array(s["anchors"], np.float64).reshape(-1, 2) / (s["width"], s["height"])
    mask = list(s["mask"]) or list(range(len(anchors)))
    head = Head.of(x, anchors[mask], s["classes"], softmax=False)
    for image, rows in enumerate(kept_truth(boxes, s["classes"]) for boxes in truth):
        best, which = head.best_overlaps(image, rows)
        objectness = head.output[image, :, 4]
        head.delta[image, :, 4] = np.where(best > s["ignore_thresh"], 0.0, -objectness)
        for anchor, row, column in np.argwhere(best > s["truth_thresh"]):
            cell, box = (image, anchor, row, column), rows[which[anchor, row, column]]
            head.delta[image, anchor, 4, row, column] = 1.0 - objectness[anchor, row, column]
            head.pull_class(cell, int(box[4]), joins=True)
            head.pull_box(cell, box, 2.0 - box[2] * box[3])
        for box in rows:
            anchor = int(_shape_overlaps(anchors, box).argmax())
            if anchor not in mask:
                continue  # another head is responsible
            cell = (image, mask.index(anchor), *head.cell_of(box))
            overlap = head.pull_box(cell, box, 2.0 - box[2] * box[3])
            at = (image, cell[1], 4, *cell[2:])
            head.delta[at] = 1.0 - head.output[at]
            score = head.pull_class(cell, int(box[4]), joins=True)
            head.matched.append((overlap, score, float(head.output[at])))
    return head


def region_delta(x: np.ndarray, truth: np.ndarray, s: Attributes) -> Head:
    """Return the head of a region layer with its delta: ``forward_region_layer``, and its backward.

    The gradient of the logistic function is put on x, y and objectness, as ``backward_region_layer_gpu``
    does; on a CPU Darknet's backward is commented out, so that nothing trains.

    Args:
        x: (N, A * (5 + C), H, W).
        truth: (N, boxes, 6), see ``TRUTH_COLUMNS``.
        s: ``anchors`` in cells; ``classes``; and ``REGION_DEFAULTS``, where ``seen`` counts this batch too.

    Raises:
        RunError: A box is of a class that there is not.
    """
    height, width = x.shape[2:]
    anchors = np.array(s["anchors"], np.float64).reshape(-1, 2) / (width, height)
    head = Head.of(x, anchors, s["classes"], softmax=bool(s["softmax"]))
    if s["seen"] < WARM_UP_IMAGES:
        head.delta[:, :, :2] = 0.01 * (0.5 - head.output[:, :, :2])
        head.delta[:, :, 2:4] = -0.01 * head.output[:, :, 2:4]
    for image, rows in enumerate(kept_truth(boxes, s["classes"]) for boxes in truth):
        best, _ = head.best_overlaps(image, rows)
        empty = -s["noobject_scale"] * head.output[image, :, 4]
        head.delta[image, :, 4] = np.where(best > s["thresh"], 0.0, empty)
        for box in rows:
            row, column = head.cell_of(box)
            low, high = np.split(head.boxes[image, :, row, column], 2, axis=-1)
            sizes = anchors if s["bias_match"] else high - low
            cell = (image, int(_shape_overlaps(sizes, box).argmax()), row, column)
            overlap = head.pull_box(cell, box, s["coord_scale"] * (2.0 - box[2] * box[3]))
            at = (image, cell[1], 4, row, column)
            wanted = overlap if s["rescore"] else 1.0
            head.delta[at] = s["object_scale"] * (wanted - head.output[at])
            score = head.pull_class(cell, int(box[4]), s["class_scale"], joins=not s["softmax"])
            head.matched.append((overlap, score, float(head.output[at])))
    for part in (slice(0, 2), slice(4, 5)):
        head.delta[:, :, part] *= head.output[:, :, part] * (1.0 - head.output[:, :, part])
    return head


def _loss_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    x, truth = shapes
    num_anchors = len(attributes.get("mask", ())) or len(attributes["anchors"]) // 2
    channels = num_anchors * (5 + attributes["classes"])
    if len(x) != 4 or x[1] != channels:
        raise ValueError(f"an input of {x[1:2]} channels, expected {channels}: {num_anchors} anchors")
    if truth[-1] != TRUTH_COLUMNS:
        raise ValueError(f"{truth[-1]} numbers for each ground-truth box, expected {TRUTH_COLUMNS}")
    return [(), (len(STATISTICS),)]


def _outputs(head: Head, dtype: np.dtype) -> Arrays:
    cost = np.square(head.delta).sum() / len(head.delta)
    return [np.asarray(cost, dtype), head.statistics().astype(dtype)]


def _yolo_gradient(inputs: Arrays, outputs: Arrays, above: Arrays, attributes: Attributes) -> Gradients:
    head = yolo_delta(inputs[0], inputs[1], {**YOLO_DEFAULTS, **attributes})
    return [_as_gradient(head, inputs[0]) * above[0], None]


def _region_gradient(inputs: Arrays, outputs: Arrays, above: Arrays, attributes: Attributes) -> Gradients:
    head = region_delta(inputs[0], inputs[1], {**REGION_DEFAULTS, **attributes})
    return [_as_gradient(head, inputs[0]) * above[0], None]


def _as_gradient(head: Head, x: np.ndarray) -> np.ndarray:
    return np.asarray((-head.delta / len(x)).reshape(x.shape), x.dtype)


@operator("YoloLoss", shapes=_loss_shapes, gradient=_yolo_gradient)
def yolo_loss(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Darknet yolo_layer.c, forward_yolo_layer: its cost over the batch size, and ``STATISTICS``.

    Inputs: the layer's input (N, A * (5 + C), H, W), ground truth (N, boxes, 6). Attributes as for
    ``yolo_delta``.
    """
    return _outputs(yolo_delta(inputs[0], inputs[1], {**YOLO_DEFAULTS, **attributes}), inputs[0].dtype)


@operator("RegionLoss", shapes=_loss_shapes, gradient=_region_gradient)
def region_loss(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Darknet region_layer.c, forward_region_layer: its cost over the batch size, and ``STATISTICS``.

    Inputs: the layer's input (N, A * (5 + C), H, W), ground truth (N, boxes, 6). Attributes as for
    ``region_delta``; ``update_images`` and ``pass_images`` are for runtimes, which count the images seen.
    """
    return _outputs(region_delta(inputs[0], inputs[1], {**REGION_DEFAULTS, **attributes}), inputs[0].dtype)

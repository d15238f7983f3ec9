"""Operators of detection as functions of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions import tape
from netweave.formats.onnx.functions.tape import (
    LOWEST,
    FunctionNode,
    Tensor,
    body,
    constant,
    loop,
    multi_op,
    op,
    without,
)
from netweave.graph.ops.box_geometry import (
    base_anchors,
    centres_of_corners,
    corners_of_centres,
    decode_boxes,
    decode_pixel_boxes,
    decode_region_boxes,
    intersection_over_union,
)
from netweave.graph.ops.detection import BASE_SIZE

# B tables of P boxes are dealt with at a time.


def indices(size: Tensor) -> Tensor:
    """Return 0, 1, 2, ... up to a size, which is a list of one number."""
    return op("Range", constant(0), op("Squeeze", size), constant(1))


def best_first(scores: Tensor, count: Tensor) -> Tensor:
    """Return the numbers of the largest scores of each table, equal ones in their own order."""
    return multi_op("TopK", scores, count, outputs=2, axis=-1)[1]


def rows(table: Tensor, order: Tensor) -> Tensor:
    """Return rows of each table (B, P, columns) in an order (B, K)."""
    sizes = op("Concat", order.sizes(0, 2), table.sizes(-1), axis=0)
    return op("GatherElements", table, op("Expand", order.at(2), sizes), axis=1)


def for_nms(boxes: Tensor) -> Tensor:
    """Return boxes as ``NonMaxSuppression`` takes them: it would turn round one whose corners are swapped.

    Such a box overlaps nothing; it comes out without an area, which overlaps nothing there.
    """
    low, high = boxes.split(2, axis=-1)
    return op("Concat", low, op("Max", low, high), axis=-1)


def greedy(
    boxes: Tensor,
    candidates: Tensor,
    *,
    most: Tensor,
    suppresses: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return which boxes stay, (B, P): the first candidate of each table, as often as there is one.

    Args:
        boxes: (B, P, 4), best first.
        candidates: (B, P).
        most: So many of each table at most.
        suppresses: Given the box that stays (B, 1, 4) and its number (B, 1), says what goes with it, (B, P).
    """
    places = indices(boxes.size(1)).at(0)

    def step(number: Tensor, left: Tensor, stays: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        first = op("ArgMax", left.cast(ir.DataType.INT32), axis=1, keepdims=1)
        taken = op("Equal", places, first) & left
        left = left & ~(taken | suppresses(rows(boxes, first), first))
        return _any(left), [left, stays | taken], []

    none = candidates & ~candidates
    return loop(most, _any(candidates), [candidates, none], step)[1]


def _any(flags: Tensor) -> Tensor:
    return op("ReduceMax", flags.cast(ir.DataType.INT32), keepdims=0).cast(ir.DataType.BOOL)


def masked(flags: Tensor, scores: Tensor) -> Tensor:
    """Return the scores, the lowest number where a flag is off."""
    return op("Where", flags, scores, LOWEST)


for _loss in ("MultiBoxLoss", "RegionLoss", "YoloLoss"):
    without(_loss, reason="it is a loss; a net that predicts has none")


@body("DetectionOutput")
def detection_output(node: FunctionNode) -> Sequence[Tensor]:
    """``NonMaxSuppression`` with the best ``top_k`` of each class for candidates."""
    s = node.settings
    if s["eta"] < 1 and s["nms_threshold"] > 0.5:
        raise NotWritable("NonMaxSuppression has no threshold that shrinks (eta)")
    boxes, all_scores = node.inputs
    threshold = float(np.float32(s["confidence_threshold"]))
    scores = op("Transpose", all_scores, perm=[0, 2, 1])
    able = scores > threshold
    if (background := s["background_label_id"]) >= 0:
        able = able & ~op("Equal", indices(scores.size(1)).at(0, 2), background)
    if s["top_k"] >= 0:
        able = able & _among(scores, able, s["top_k"])
    scores = op("Where", able, scores, threshold)
    detections = _found(boxes, scores, threshold, s["nms_threshold"], own=node.shape(0)[2] != 1)
    image, label, box = multi_op("Split", detections, outputs=3, num_outputs=3, axis=1)
    score = op("GatherND", scores, detections)
    if s["keep_top_k"] >= 0:
        stays = _best_of_images(image, score, boxes.size(0), s["keep_top_k"])
        image, label, box, score = (
            op("Compress", part, stays, axis=0) for part in (image, label, box, score)
        )
    own_class = label if node.shape(0)[2] != 1 else label - label
    corners = op("GatherND", boxes, op("Concat", image, box, own_class, axis=1))
    whole = [part.cast(ir.DataType.FLOAT) for part in (image, label)]
    lines = op("Concat", *whole, score.at(1), corners, axis=1)
    return [op("Concat", lines, _none(lines, boxes.size(0)), axis=0).at(0, 1)]


def _among(scores: Tensor, able: Tensor, most: int) -> Tensor:
    """Return whether a score (N, C, P) is one of the best of its class."""
    count = op("Min", scores.size(2), [most])
    best = best_first(masked(able, scores), count)
    none = op("Where", able, 0.0, 0.0)
    return op("ScatterElements", none, best, op("Expand", 1.0, best.sizes()), axis=2) > 0.0


def _found(boxes: Tensor, scores: Tensor, threshold: float, overlap: float, *, own: bool) -> Tensor:
    """Return image, class and box of what stays (K, 3), in that order, the boxes best first.

    Args:
        boxes: (N, P, 1 or C, 4).
        scores: (N, C, P), not above the threshold where a box is no candidate.
        threshold: Of the scores.
        overlap: A box goes that overlaps a better one by more.
        own: Whether each class has boxes of its own.
    """
    limits = (scores.size(2), [overlap], [threshold])
    if not own:
        return op("NonMaxSuppression", for_nms(op("Squeeze", boxes, [2])), scores, *limits)
    by_class = op("Transpose", boxes, perm=[0, 2, 1, 3])
    tables = op("Reshape", by_class, op("Concat", [-1], scores.size(2), [4], axis=0))
    single = op("Reshape", scores, op("Concat", [-1, 1], scores.size(2), axis=0))
    table, _, box = multi_op(
        "Split", op("NonMaxSuppression", for_nms(tables), single, *limits), outputs=3, num_outputs=3, axis=1
    )
    num_classes = scores.size(1)
    return op("Concat", table / num_classes, op("Mod", table, num_classes), box, axis=1)


def _best_of_images(image: Tensor, score: Tensor, num_images: Tensor, most: int) -> Tensor:
    """Return whether each of all detections (K,) is one of the best of its image; of equal ones the first."""
    by_score = best_first(score, score.size(0))
    image = op("Squeeze", image, [1])
    by_image = multi_op("TopK", op("Gather", image, by_score), image.size(0), outputs=2, axis=0, largest=0)
    order = op("Gather", by_score, by_image[1])
    counts = op("Equal", by_image[0].at(0), indices(num_images).at(1)).cast(ir.DataType.INT64)
    first = op("CumSum", op("ReduceSum", counts, [1], keepdims=0), 0, exclusive=1)
    rank = indices(image.size(0)) - op("Gather", first, by_image[0])
    stays = op("Where", rank < most, 1.0, 0.0)
    return op("ScatterElements", stays * 0.0, order, stays, axis=0) > 0.0


def _none(lines: Tensor, num_images: Tensor) -> Tensor:
    """Return a row of its number and -1 for each image if there are no detections at all."""
    shown = op("Where", op("Equal", lines.size(0), 0), num_images, 0)
    numbers = indices(shown).cast(ir.DataType.FLOAT).at(1)
    return op("Pad", numbers, [0, 0, 0, 6], -1.0)


without("MultiBoxTarget", reason="it chooses what to train on; a net that predicts has none")


@body("MultiBoxDetection")
def multibox_detection(node: FunctionNode) -> Sequence[Tensor]:
    """By ``NonMaxSuppression``, whose threshold is the next number below: MXNet's boxes go from it on."""
    probabilities, locations, anchors = node.inputs
    s = node.settings
    if node.shape(0)[1] == 1:
        raise NotWritable("there is no class but the background")
    deltas = op("Reshape", locations, [0, -1, 4]) * np.array(s["variances"], np.float32)
    boxes = decode_boxes(anchors, deltas, tape)
    boxes = op("Clip", boxes, 0.0, 1.0) if s["clip"] else boxes
    likeliest = op("Slice", probabilities, [1], [np.iinfo(np.int64).max], [1])
    score = op("ReduceMax", likeliest, [1], keepdims=0)
    label = op("ArgMax", likeliest, axis=1, keepdims=0)
    likely = (score > -1.0) & (score >= float(s["threshold"]))
    count = op("ReduceSum", likely.cast(ir.DataType.INT64), [1], keepdims=1)
    table = op("Concat", label.cast(ir.DataType.FLOAT).at(2), score.at(2), boxes, axis=2)
    num_anchors = likely.size(1)
    order = best_first(likely.cast(ir.DataType.FLOAT), num_anchors)
    detections = rows(table, order)
    is_row = indices(num_anchors).at(0) < count
    if 0 < s["nms_threshold"] <= 1:
        detections = _suppressed(
            detections,
            rows(table, best_first(masked(likely, score), num_anchors)),
            count,
            likeliest.size(1),
            s,
        )
    return [op("Where", is_row.at(2), detections, -1.0)]


def _suppressed(
    table: Tensor, ordered: Tensor, count: Tensor, num_classes: Tensor, s: dict[str, Any]
) -> Tensor:
    """Return rows best first, those that go with class -1; those beyond ``nms_topk`` are in no order."""
    places = indices(table.size(1)).at(0)
    looked_at = op("Min", count, s["nms_topk"]) if s["nms_topk"] > 0 else count
    candidate = places < looked_at
    remaining = op("Where", candidate.at(2), ordered, table)
    label, score, boxes = multi_op("Split", remaining, [1, 1, 4], outputs=3, axis=2)
    rivals = candidate.at(1)
    if not s["force_suppress"]:
        classes = indices(num_classes).cast(ir.DataType.FLOAT).at(0, 2)
        rivals = rivals & op("Equal", classes, op("Transpose", label, perm=[0, 2, 1]))
    scores = op("Where", rivals, op("Transpose", score, perm=[0, 2, 1]), -2.0)
    threshold = np.nextafter(np.float32(s["nms_threshold"]), np.float32(0))
    chosen = op("NonMaxSuppression", for_nms(boxes), scores, table.size(1), [float(threshold)], [-1.0])
    places_kept = op("Gather", chosen, [0, 2], axis=1)
    none = op("Where", candidate, 0.0, 0.0)
    ones = op("Expand", 1.0, chosen.size(0))
    kept = op("ScatterND", none, places_kept, ones) > 0.0
    label = op("Where", kept.at(2), label, -1.0)
    return op("Concat", label, score, boxes, axis=2)


@body("BoxNMS")
def box_nms(node: FunctionNode) -> Sequence[Tensor]:
    """One box at a time: ``NonMaxSuppression`` has no classes that are computed."""
    (x,) = node.inputs
    s = node.settings
    table = op("Reshape", x, op("Concat", [-1], x.sizes(-2), axis=0))
    scores = _column(table, s["score_index"])
    valid = scores > s["valid_thresh"]
    if s["id_index"] >= 0:
        valid = valid & ~op("Equal", _column(table, s["id_index"]), float(s["background_id"]))
    num_boxes = table.size(1)
    count = op("Min", num_boxes, [s["topk"]]) if s["topk"] > 0 else num_boxes
    order = best_first(masked(valid, scores), count)
    ordered = rows(table, order)
    candidates = op("GatherElements", valid.cast(ir.DataType.INT32), order, axis=1).cast(ir.DataType.BOOL)
    boxes = ordered.part(s["coord_start"], s["coord_start"] + 4, axis=2)
    boxes = corners_of_centres(boxes, tape) if s["in_format"] == "center" else boxes
    classes = _column(ordered, s["id_index"]) if s["id_index"] >= 0 and not s["force_suppress"] else None

    def suppresses(best: Tensor, number: Tensor) -> Tensor:
        goes: Tensor = intersection_over_union(best, boxes, tape) > float(s["overlap_thresh"])
        if classes is None:
            return goes
        return goes & op("Equal", classes, op("GatherElements", classes, number, axis=1))

    stays = greedy(boxes, candidates, most=op("Squeeze", count), suppresses=suppresses)
    kept = best_first(stays.cast(ir.DataType.FLOAT), count)
    total = op("ReduceSum", stays.cast(ir.DataType.INT64), [1], keepdims=1)
    remaining = _converted(rows(ordered, kept), s)
    remaining = op("Where", (indices(count).at(0) < total).at(2), remaining, -1.0)
    behind = op("Concat", [0, 0, 0, 0], num_boxes - count, [0], axis=0)
    return [op("Reshape", op("Pad", remaining, behind, -1.0), x.sizes())]


def _column(table: Tensor, index: int) -> Tensor:
    """Return a column of each table (B, P, columns)."""
    return op("Squeeze", table.part(index, index + 1, axis=2), [2])


def _converted(found: Tensor, s: dict[str, Any]) -> Tensor:
    """Return rows with their boxes in the format that is asked for."""
    if s["in_format"] == s["out_format"]:
        return found
    start = s["coord_start"]
    before, old = found.part(0, start, axis=2), found.part(start, start + 4, axis=2)
    behind = found.part(start + 4, np.iinfo(np.int64).max, axis=2)
    new = corners_of_centres(old, tape) if s["in_format"] == "center" else centres_of_corners(old, tape)
    new = op("Where", old.part(0, 1, axis=2) < 0.0, old, new)  # MXNet takes these for no boxes
    return op("Concat", before, new, behind, axis=2)


without(
    "Accuracy",
    "CTCLoss",
    "CTCOutput",
    "CenterLoss",
    "ContrastiveLoss",
    "EuclideanLoss",
    "HingeLoss",
    "InfogainLoss",
    "MultinomialLogisticLoss",
    "SigmoidCrossEntropyLoss",
    "SmoothL1Loss",
    "SoftmaxWithLoss",
    reason="it judges a net by labels; a net that predicts has none",
)


without(
    *("CallCount", "LabelSpecificMargin", "MarginInnerProduct", "UnitRows"),
    reason="it gives a label a margin in training; a net that predicts has none",
)


@body("LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", "MakeLoss")
def passed_on(node: FunctionNode) -> Sequence[Tensor]:
    """Return the input; the loss is only in the gradient."""
    return [op("Identity", node.inputs[0])]


@body("LogisticRegressionOutput")
def sigmoid(node: FunctionNode) -> Sequence[Tensor]:
    """The sigmoid."""
    return [op("Sigmoid", node.inputs[0])]


@body("SoftmaxOutput")
def softmax(node: FunctionNode) -> Sequence[Tensor]:
    """Softmax over axis 1, the last, or all but the first."""
    x = node.inputs[0]
    if node.settings.get("multi_output"):
        return [op("Softmax", x, axis=1)]
    if node.settings.get("preserve_shape"):
        return [op("Softmax", x, axis=-1)]
    return [op("Reshape", op("Softmax", op("Flatten", x, axis=1), axis=1), x.sizes())]


@body("Proposal")
def proposal(node: FunctionNode) -> Sequence[Tensor]:
    """One region at a time: both corners belong to a box, which ``NonMaxSuppression`` cannot be told."""
    scores, deltas, info = node.inputs
    s = node.settings
    anchors = np.array(base_anchors(s["feature_stride"], s["ratios"], s["scales"]), np.float32)
    own = scores.part(len(anchors), 2 * len(anchors), axis=1)
    own = op("Transpose", own, perm=[0, 2, 3, 1])  # (N, H, W, A)
    moves = op("Transpose", deltas, perm=[0, 2, 3, 1])
    moves = op("Reshape", moves, op("Concat", own.sizes(), [4], axis=0))
    height, width, scale = info.split(3, axis=1)
    cells = _shifted(anchors, own, s["feature_stride"])
    boxes = cells + moves if s["iou_loss"] else decode_pixel_boxes(cells, moves, tape)
    boxes = _cut(boxes, height, width)
    inside = _inside(own, (height, width), s["feature_stride"])
    own = op("Where", inside.at(3), own, -1.0)
    boxes = op("Reshape", boxes, op("Concat", own.size(0), [-1, 4], axis=0))
    flat = op("Reshape", own, [0, -1])
    boxes, flat = _without_small(boxes, flat, scale * float(s["rpn_min_size"]))
    first = flat.size(1)
    if s["rpn_pre_nms_top_n"] > 0:
        first = op("Min", first, [s["rpn_pre_nms_top_n"]])
    order = best_first(flat, first)
    boxes, flat = rows(boxes, order), op("GatherElements", flat, order, axis=1)
    return _regions(boxes, flat, op("Min", first, [s["rpn_post_nms_top_n"]]), s)


def _shifted(anchors: np.ndarray, own: Tensor, stride: int) -> Tensor:
    """Return the anchors of each cell, (H, W, A, 4)."""
    down, right = (indices(own.size(axis)).cast(ir.DataType.FLOAT) * float(stride) for axis in (1, 2))
    down, right = down.at(1), right.at(0)
    down, right = op("Add", down, right * 0.0), op("Add", right, down * 0.0)
    shifts = op("Concat", *(part.at(2, 3) for part in (right, down, right, down)), axis=3)
    return shifts + anchors


def _cut(boxes: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Return boxes (N, H, W, A, 4) cut to their images."""
    limits = op("Concat", width - 1.0, height - 1.0, width - 1.0, height - 1.0, axis=1).at(1, 2, 3)
    return op("Max", op("Min", boxes, limits), 0.0)


def _inside(own: Tensor, ends: tuple[Tensor, Tensor], stride: int) -> Tensor:
    """Return which cells are in the image and not in its padding, (N, H, W)."""
    last = [(end / float(stride)).cast(ir.DataType.INT64) for end in ends]
    down, right = (indices(own.size(axis)).at(0) < end for axis, end in zip((1, 2), last, strict=True))
    return down.at(2) & right.at(1)


def _without_small(boxes: Tensor, scores: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """Return boxes and scores, small boxes larger and with the score -1."""
    low, high = boxes.split(2, axis=2)
    small = op("ReduceMax", (high - low + 1.0 < least.at(2)).cast(ir.DataType.INT32), [2], keepdims=0)
    is_small = small.cast(ir.DataType.BOOL)
    wider = op("Mul", np.array([-1, -1, 1, 1], np.float32), least.at(2) / 2.0)
    boxes = op("Where", is_small.at(2), boxes + wider, boxes)
    return boxes, op("Where", is_small, -1.0, scores)


def _suppressing(boxes: Tensor, threshold: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function that says which boxes a survivor suppresses; both corners belong to a box."""

    def suppresses(best: Tensor, number: Tensor) -> Tensor:
        common: Tensor = intersection_over_union(boxes, best, tape, edge=1.0)
        return ~(common <= threshold)

    return suppresses


def _regions(boxes: Tensor, scores: Tensor, most: Tensor, s: dict[str, Any]) -> list[Tensor]:
    """Return the regions that stay as rows of image and corners, repeated to so many, and their scores."""
    able = scores >= scores
    suppresses = _suppressing(boxes, float(s["threshold"]))
    stays = greedy(boxes, able, most=op("Squeeze", most), suppresses=suppresses)
    kept = best_first(stays.cast(ir.DataType.FLOAT), boxes.size(1))
    count = op("ReduceSum", stays.cast(ir.DataType.INT64), [1], keepdims=1)
    chosen = op("GatherElements", kept, op("Mod", indices(most).at(0), count), axis=1)
    images = indices(boxes.size(0)).cast(ir.DataType.FLOAT).at(1, 2)
    chosen_boxes = rows(boxes, chosen)
    image = op("Expand", images, op("Concat", chosen_boxes.sizes(0, 2), [1], axis=0))
    regions = op("Concat", image, chosen_boxes, axis=2)
    score = op("GatherElements", scores, chosen, axis=1)
    return [op("Reshape", regions, [-1, 5]), op("Reshape", score, [-1, 1])]


@body("RegionProposal")
def region_proposal(node: FunctionNode) -> Sequence[Tensor]:
    """As many regions as stay, of the boxes of one image that are large enough."""
    scores, deltas, info = node.inputs
    s = node.settings
    anchors = np.array(base_anchors(BASE_SIZE, s["ratios"], s["scales"]), np.float32)
    own = op("Transpose", scores.part(len(anchors), 2 * len(anchors), axis=1), perm=[0, 2, 3, 1])
    moves = op("Transpose", deltas, perm=[0, 2, 3, 1])
    moves = op("Reshape", moves, op("Concat", own.sizes(), [4], axis=0))
    height, width, scale = (info.part(column, column + 1, axis=1) for column in range(3))
    boxes = decode_region_boxes(_shifted(anchors, own, s["feature_stride"]), moves, tape)
    boxes = _cut(boxes, height, width)
    boxes, flat = op("Reshape", boxes, [1, -1, 4]), op("Reshape", own, [1, -1])
    low, high = boxes.split(2, axis=2)
    is_side = (high - low + 1.0 >= (scale * float(s["min_size"])).at(2)).cast(ir.DataType.INT32)
    large = op("ReduceMin", is_side, [2], keepdims=0).cast(ir.DataType.BOOL)
    first = flat.size(1)
    if s["pre_nms_top_n"] > 0:
        first = op("Min", first, [s["pre_nms_top_n"]])
    order = best_first(masked(large, flat), first)
    boxes, flat = rows(boxes, order), op("GatherElements", flat, order, axis=1)
    able = op("GatherElements", large.cast(ir.DataType.INT32), order, axis=1).cast(ir.DataType.BOOL)
    most = constant(s["post_nms_top_n"]) if s["post_nms_top_n"] > 0 else op("Squeeze", first)
    suppresses = _suppressing(boxes, float(s["nms_threshold"]))
    stays = op("Squeeze", greedy(boxes, able, most=most, suppresses=suppresses), [0])
    regions = op("Compress", op("Squeeze", boxes, [0]), stays, axis=0)
    score = op("Compress", op("Squeeze", flat, [0]), stays, axis=0).at(1)
    return [op("Concat", score * 0.0, regions, axis=1), score]


@body("ROIPooling")
def roi_pooling(node: FunctionNode) -> Sequence[Tensor]:
    """One region at a time: ONNX Runtime's MaxRoiPool ends before the opset of our files."""
    x, regions = node.inputs
    height, width = node.settings["pooled_shape"]
    image, *borders = (part.cast(ir.DataType.DOUBLE) for part in regions.split(5, axis=1))
    left, top, right, bottom = (
        _rounded(border * _double(node.settings["spatial_scale"])) for border in borders
    )
    rows = _bins(top, bottom, height, x.size(2))
    columns = _bins(left, right, width, x.size(3))
    images = op("Squeeze", image.cast(ir.DataType.INT64), [1])

    def step(number: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        plane = op("Gather", x, op("Gather", images, number))
        own = [op("Gather", borders, number) for borders in (*rows, *columns)]
        return None, [], [_pooled(plane, own)]

    (pooled,) = loop(op("Squeeze", regions.size(0)), None, [], step)
    sizes = op("Concat", regions.size(0), x.size(1), [height, width], axis=0)
    return [op("Reshape", pooled, sizes, allowzero=1)]


def _double(value: float) -> Tensor:
    return constant(np.array(value, np.float64))


def _rounded(value: Tensor) -> Tensor:
    """Return a border in cells, half away from zero."""
    return op("Sign", value) * op("Floor", op("Abs", value) + _double(0.5))


def _bins(first: Tensor, last: Tensor, num_bins: int, size: Tensor) -> tuple[Tensor, Tensor]:
    """Return where bins begin and what they end before, (R, bins), as ``box_geometry.region_bins``."""
    width = op("Max", last - first + _double(1), _double(1)) / _double(num_bins)
    number = indices(constant([num_bins])).cast(ir.DataType.DOUBLE)
    borders = (
        first + op("Floor", width * number),
        first + op("Ceil", width * (number + _double(1))),
    )
    begin, end = (op("Max", op("Min", b.cast(ir.DataType.INT64), size), 0) for b in borders)
    return begin, end


def _pooled(plane: Tensor, borders: list[Tensor]) -> Tensor:
    """Return the largest of each bin, 0 for an empty one: the rows of each bin first, then the columns."""
    cells = plane  # (C, H, W)
    full = []
    for axis, (begin, end) in ((1, borders[:2]), (2, borders[2:])):
        first = op("Min", op("ReduceMin", begin, [0]), plane.size(axis) - 1)
        last = op("Max", op("ReduceMax", end, [0]), first + 1)
        cells = cells.part(first, last, axis=axis)
        place = op("Range", op("Squeeze", first), op("Squeeze", last), 1).at(0)
        inside = (place >= begin.at(1)) & (place < end.at(1))  # (bins, places)
        inside = inside.at(0, 3) if axis == 1 else inside.at(0, 1)
        cells = op("Where", inside, cells.at(axis), LOWEST)
        cells = op("ReduceMax", cells, [axis + 1], keepdims=0)
        full.append(begin < end)
    return op("Where", full[0].at(1) & full[1].at(0), cells, 0.0)


@body("PSROIPooling")
def position_sensitive_pooling(node: FunctionNode) -> Sequence[Tensor]:
    """The mean of each bin over channels of its own: of planes (D, G, G, H, W), 0 outside the bins."""
    x, regions = node.inputs
    group, num_outputs = node.settings["group_size"], node.settings["output_dim"]
    scale = _double(node.settings["spatial_scale"])
    image, left, top, right, bottom = (p.cast(ir.DataType.DOUBLE) for p in regions.split(5, axis=1))
    rows = _mean_bins(top, bottom, group, x.size(2), scale)
    columns = _mean_bins(left, right, group, x.size(3), scale)
    images = op("Squeeze", image.cast(ir.DataType.INT64), [1])
    planes = op("Reshape", x, op("Concat", [0, num_outputs, group, group], x.sizes(2), axis=0))

    def step(number: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        found = op("Gather", planes, op("Gather", images, number))
        counts = []
        for axis, each, shape in ((3, rows, (0, 2, 4)), (4, columns, (0, 1, 3))):
            begin, end = (op("Gather", border, number) for border in each)
            place = indices(found.size(axis)).at(0)
            inside = (place >= begin.at(1)) & (place < end.at(1))  # (bins, places)
            found = op("Where", inside.at(*shape), found, 0.0)
            counts.append(op("Max", end - begin, 0).cast(ir.DataType.FLOAT))
        area = counts[0].at(1) * counts[1].at(0)
        total = op("ReduceSum", found, [3, 4], keepdims=0)
        return None, [], [total / op("Max", area, 1.0)]

    (found,) = loop(op("Squeeze", regions.size(0)), None, [], step)
    sizes = op("Concat", regions.size(0), [num_outputs, group, group], axis=0)
    return [op("Reshape", found, sizes, allowzero=1)]


def _mean_bins(
    first: Tensor, last: Tensor, num_bins: int, size: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Return where bins begin and what they end before, (R, bins), as ``box_geometry.mean_bins``."""
    start, stop = _rounded(first) * scale, (_rounded(last) + _double(1)) * scale
    width = op("Max", stop - start, _double(0.1)) / _double(num_bins)
    number = indices(constant([num_bins])).cast(ir.DataType.DOUBLE)
    borders = (
        op("Floor", width * number + start),
        op("Ceil", width * (number + _double(1)) + start),
    )
    begin, end = (op("Max", op("Min", b.cast(ir.DataType.INT64), size), 0) for b in borders)
    return begin, end


without(
    *("Bridge", "Broadcast", "Gather", "Halo", "Regroup", "Slice"),
    reason="it connects the workers of a run; a file has the whole net",
)

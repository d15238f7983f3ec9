"""Which boxes are detections: against a reference written box by box, and on crafted tensors."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph import find_operator

SETTINGS = {
    "background_label_id": 0,
    "confidence_threshold": 0.1,
    "nms_threshold": 0.5,
    "top_k": -1,
    "keep_top_k": -1,
    "eta": 1.0,
}


def detections(boxes, scores, **settings):
    """Return the rows of the operator."""
    boxes, scores = np.asarray(boxes, np.float32), np.asarray(scores, np.float32)
    boxes = boxes[:, :, None] if boxes.ndim == 3 else boxes
    (found,) = find_operator("DetectionOutput").forward([boxes, scores], SETTINGS | settings)
    assert found.shape[:2] == (1, 1)
    return found[0, 0]


def overlap(a, b):
    """Intersection over union of two boxes."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [max(x1 - x0, 0) * max(y1 - y0, 0) for x0, y0, x1, y1 in (a, b)]
    return width * height / (sum(areas) - width * height)


def reference(boxes, scores, **settings):
    """The paper's greedy suppression, class by class, as SSD's layer orders and limits it."""
    s = SETTINGS | settings
    rows = []
    threshold = np.float32(s["confidence_threshold"])
    for image, (corners, table) in enumerate(zip(boxes, scores, strict=True)):
        chosen = []
        for label in range(len(table[0])):
            if label == s["background_label_id"]:
                continue
            good = [box for box in range(len(table)) if table[box][label] > threshold]
            good.sort(key=lambda box: -table[box][label])
            good = good if s["top_k"] < 0 else good[: s["top_k"]]
            kept, limit = [], np.float32(s["nms_threshold"])
            for box in good:
                own = [corners[b][min(label, len(corners[b]) - 1)] for b in (box, *kept)]
                if all(overlap(own[0], other) <= limit for other in own[1:]):
                    kept.append(box)
                    limit *= np.float32(s["eta"] if limit > 0.5 else 1)
            chosen += [(table[box][label], label, box) for box in kept]
        if 0 <= s["keep_top_k"] < len(chosen):
            border = sorted(chosen, key=lambda row: -row[0])[: s["keep_top_k"]]
            chosen = [row for row in chosen if row in border]
        for score, label, box in chosen:
            rows.append([image, label, score, *corners[box][min(label, len(corners[box]) - 1)]])
    return np.array(rows or [[image, *[-1] * 6] for image in range(len(boxes))])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"background_label_id": -1},
        {"background_label_id": 2, "nms_threshold": 0.2},
        {"top_k": 5},
        {"top_k": 9, "keep_top_k": 4},
        {"keep_top_k": 0},
        {"keep_top_k": 1000},
        {"nms_threshold": 0.9, "eta": 0.8},
        {"nms_threshold": 0.45, "eta": 0.5},
        {"nms_threshold": 0.0},
        {"confidence_threshold": 0.45, "keep_top_k": 3},
        {"confidence_threshold": 2.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("digits", [1, 6])
def test_rows_are_those_of_the_reference(settings, shared, digits):
    """With one digit many scores are equal, and some boxes too."""
    rng = np.random.default_rng([digits, shared])
    centres, sizes = rng.uniform(0, 1, (2, 40, 1 if shared else 4, 2)), rng.uniform(0.1, 0.6, (2, 40, 1, 2))
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1).round(digits)
    scores = rng.dirichlet(np.full(4, 0.5), (2, 40)).round(digits)
    boxes, scores = boxes.astype(np.float32), scores.astype(np.float32)
    found = detections(boxes, scores, **settings)
    np.testing.assert_array_equal(found, reference(boxes, scores, **settings).astype(np.float32))


UNIT = [0.0, 0.0, 1.0, 1.0]


def test_without_detections_there_is_a_row_for_each_image():
    scores = [[[1, 0.1], [1, 0.05]], [[1, 0.0], [1, 0.0]]]  # the threshold itself is not above it
    found = detections([[UNIT, UNIT]] * 2, scores)
    np.testing.assert_array_equal(found, [[0, *[-1] * 6], [1, *[-1] * 6]])


def test_an_image_without_detections_has_no_row_beside_one_that_has():
    found = detections([[UNIT]] * 2, [[[0, 0.0]], [[0, 0.5]]])
    np.testing.assert_array_equal(found, [[1, 1, 0.5, *UNIT]])


def test_of_equal_boxes_with_equal_scores_the_first_stays():
    found = detections([[UNIT, UNIT, [2, 2, 3, 3]]], [[[0, 0.5], [0, 0.5], [0, 0.5]]])
    np.testing.assert_array_equal(found[:, 3], [0, 2])


def test_an_overlap_of_the_threshold_itself_is_allowed():
    halves = [[UNIT, [0, 0, 1, 0.5]]]
    assert len(detections(halves, [[[0, 0.9], [0, 0.8]]], nms_threshold=0.5)) == 2
    assert len(detections(halves, [[[0, 0.9], [0, 0.8]]], nms_threshold=0.49)) == 1


def test_boxes_outside_of_the_image_and_inside_out_are_kept_as_they_are():
    boxes = [[[-3, -3, -2, -2], [0.8, 0.8, 0.2, 0.2], [0, 0, 0, 0]]]
    found = detections(boxes, [[[0, 0.9], [0, 0.8], [0, 0.7]]])
    np.testing.assert_array_equal(found[:, 3:], np.float32(boxes[0]))


def test_a_score_that_is_no_number_is_no_detection():
    found = detections([[UNIT, [2, 2, 3, 3]]], [[[0, np.nan], [0, 0.5]]])
    np.testing.assert_array_equal(found[:, 3], [2])


def test_a_box_of_no_numbers_stays_and_drives_out_all_behind_it():
    """JaccardOverlap by ``std::max``: 0 where the candidate is NaN, NaN where the one that stayed is."""
    boxes = [[UNIT, [np.nan] * 4, [2, 2, 3, 3]]]
    found = detections(boxes, [[[0, 0.9], [0, 0.8], [0, 0.7]]])
    np.testing.assert_array_equal(found[:, 2], np.float32([0.9, 0.8]))


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ((1, 5, 4), (1, 5, 3), r"boxes \(1, 5, 4\) and scores \(1, 5, 3\), expected"),
        ((1, 5, 1, 4), (1, 6, 3), r"boxes \(1, 5, 1, 4\) and scores \(1, 6, 3\), expected"),
        ((1, 5, 2, 4), (1, 5, 3), "boxes for 2 classes, expected 1 or 3"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(boxes, scores, message):
    with pytest.raises(ValueError, match=message):
        find_operator("DetectionOutput").shapes([boxes, scores], SETTINGS)

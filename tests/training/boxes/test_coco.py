"""COCO's files and figures: by hand, and what is wrong with a file."""

from __future__ import annotations

from math import isnan

import pytest

pytest.importorskip("pycocotools")

import netweave
from netweave.errors import ReadError, UsageError
from tests.training.boxes.files import coco_labels, write_json

BOX = {"image_id": 11, "category_id": 5, "bbox": [0, 0, 100, 100]}
"""Of the labels; a detection that is 77 wide overlaps it by 0.77."""


def scored(tmp_path, boxes, found, **settings):
    labels = write_json(tmp_path / "labels.json", coco_labels(boxes))
    return netweave.evaluate_boxes(labels, write_json(tmp_path / "found.json", found), **settings)


def result(box, score=0.9, *, image=11, category=5):
    return {"image_id": image, "category_id": category, "bbox": box, "score": score}


def test_precision_is_the_mean_over_ten_overlaps(tmp_path):
    """An overlap of 0.77 is enough for six of the ten, from 0.5 to 0.75."""
    first, second = scored(tmp_path, [BOX], [result([0, 0, 77, 100])]).classes
    assert first.ap_coco == pytest.approx(0.6)
    found = (first.ap_50, first.ap_75, first.ap_voc, first.ap_11)
    assert found == pytest.approx((1, 1, 1, 1))
    assert second.name == "class1"
    assert all(isnan(value) for value in (second.ap_coco, second.ap_voc, second.recall))


def test_a_box_is_found_once_and_classes_are_told_apart(tmp_path):
    boxes = [BOX, {**BOX, "category_id": 6}, {**BOX, "image_id": 12}]
    found = [result([0, 0, 100, 100]), result([0, 0, 100, 100], 0.8), result([0, 0, 100, 100], 0.7, image=12)]
    first, second = scored(tmp_path, boxes, found).classes
    # hits 1 0 1 of 2: the best precision is 1 up to a recall of 1/2 (51 of 101 points), then 2/3
    assert first.ap_50 == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)
    assert first.ap_voc == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert (second.ap_50, second.ap_voc, second.num_labels) == (0, 0, 1)


def test_a_crowd_counts_neither_way(tmp_path):
    boxes = [BOX, {"image_id": 11, "category_id": 5, "bbox": [200, 0, 100, 100], "iscrowd": 1}]
    found = [result([0, 0, 100, 100], 0.5), result([200, 0, 100, 100], 0.9)]
    first = scored(tmp_path, boxes, found).classes[0]
    assert (first.num_labels, first.num_found) == (1, 1)
    assert (first.ap_50, first.ap_voc) == pytest.approx((1, 1))


def test_images_and_detections_may_be_none(tmp_path):
    scores = scored(tmp_path, [BOX], [])
    assert (scores.classes[0].ap_coco, scores.classes[0].ap_voc, scores.classes[0].recall) == (0, 0, 0)
    scores = scored(tmp_path, [], [result([0, 0, 1, 1])])
    assert scores.classes[0].num_found == 1
    assert isnan(scores.mean.ap_coco)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "is not COCO JSON of labelled boxes: expected an object with the lists images, annotations"),
        ({"images": [], "annotations": []}, "expected an object with the lists"),
        (
            coco_labels([{**BOX, "image_id": 9}]),
            r"annotations\[0\]: 'image_id' is 9, which is not among the 2 of the labels",
        ),
        (
            coco_labels([{**BOX, "category_id": [5]}]),
            r"annotations\[0\]: 'category_id' is \[5\], which is not among",
        ),
        (coco_labels([{**BOX, "bbox": [0, 0, 1]}]), r"'bbox' is \[0, 0, 1\], expected four numbers"),
        (coco_labels([{**BOX, "bbox": [0, 0, -1, 2]}]), "expected a width and a height of 0 or more"),
        (coco_labels([{**BOX, "area": "big"}]), r"annotations\[0\]: 'area' is 'big', expected a number"),
        (
            coco_labels([]) | {"images": [{"id": 1}, {"id": 1}]},
            r"images\[1\] has the id 1, expected a unique number",
        ),
        (coco_labels([]) | {"categories": [5]}, r"categories\[0\] has the id None, expected a unique number"),
    ],
)
def test_wrong_labels_are_named(tmp_path, labels, message):
    path = write_json(tmp_path / "labels.json", labels)
    with pytest.raises(ReadError, match=message):
        netweave.evaluate_boxes(path, write_json(tmp_path / "found.json", []))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "is not COCO JSON of results: expected a list of objects"),
        ([7], r"found.json: \[0\]: is 7, expected an object"),
        ([result([0, 0, 1, 1], image=9)], r"\[0\]: 'image_id' is 9, which is not among the 2 of the labels"),
        ([result([0, 0, 1, 1]), result([0, 0, 1, 1], None)], r"\[1\]: 'score' is None, expected a number"),
        ([result([0, 0, 1, 1], float("nan"))], r"\[0\]: 'score' is nan, expected a number"),
    ],
)
def test_wrong_results_are_named(tmp_path, found, message):
    with pytest.raises(ReadError, match=message):
        scored(tmp_path, [BOX], found)


def test_what_is_not_json_is_named(tmp_path):
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(ReadError, match=r"labels\.json: is not JSON"):
        netweave.evaluate_boxes(tmp_path / "labels.json", tmp_path / "found.json")


def test_an_overlap_out_of_range_is_refused(tmp_path):
    with pytest.raises(UsageError, match="iou is 0, expected a number above 0 and at most 1"):
        netweave.evaluate_boxes(tmp_path, tmp_path, iou=0)


def test_results_of_voc_are_scored_on_labels_of_coco_by_name(tmp_path):
    labels = write_json(tmp_path / "labels.json", coco_labels([BOX]))
    (tmp_path / "class0.txt").write_text("0.jpg 0.9 0 0 99 99\n")
    assert netweave.evaluate_boxes(labels, tmp_path / "class0.txt").classes[0].ap_coco == pytest.approx(1)

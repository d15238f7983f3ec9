"""VOC's precision: by hand, against GluonCV, and against COCO's program where the two rules coincide."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pycocotools")

import netweave
from netweave.errors import ReadError
from netweave.training.boxes import Detections, Labels, score
from tests.training.boxes.drawn import CASES, drawn
from tests.training.boxes.files import write_annotations, write_results

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "voc_scores.json").read_text())

BOX = [10.0, 10.0, 29.0, 29.0]
FAR = [60.0, 60.0, 79.0, 79.0]
TRUTH = {
    "a": [("car", BOX, 0), ("car", FAR, 1), ("dog", FAR, 0)],
    "b": [("car", BOX, 0), ("car", FAR, 0)],
    "c": [],
}
FOUND = [
    ("a", "car", 0.9, BOX),
    ("b", "car", 0.8, [10.0, 60.0, 29.0, 79.0]),  # where there is nothing
    ("a", "car", 0.7, FAR),  # difficult: counts for nothing
    ("a", "car", 0.6, [12.0, 10.0, 31.0, 29.0]),  # found already
    ("b", "car", 0.5, FAR),
    ("c", "car", 0.4, FAR),
]


def scored(tmp_path, truth=TRUTH, found=FOUND, **settings):
    labels = write_annotations(tmp_path / "Annotations", truth)
    return netweave.evaluate_boxes(labels, write_results(tmp_path / "Main", found), **settings)


def test_scores_are_those_worked_out_by_hand(tmp_path):
    """Car: hits 1 0 0 1 0 of 3 boxes; the best precision is 1 up to a recall of 1/3 and 1/2 up to 2/3."""
    scores = scored(tmp_path)
    car, dog = scores.classes
    assert (car.name, car.num_labels, car.num_found) == ("car", 3, 5)
    assert car.ap_11 == pytest.approx((4 * 1 + 3 * 0.5) / 11)
    assert car.ap_voc == pytest.approx(1 / 3 * 1 + 1 / 3 * 0.5)
    assert (car.precision, car.recall) == (pytest.approx(2 / 4), pytest.approx(2 / 3))
    assert (dog.num_labels, dog.num_found, dog.recall, dog.ap_11, dog.ap_voc) == (1, 0, 0, 0, 0)
    assert isnan(dog.precision)
    assert scores.mean.ap_voc == pytest.approx(0.25)
    assert scores.mean.precision == pytest.approx(0.5)  # of dog there is none
    assert (scores.mean.num_labels, scores.mean.num_found, scores.num_images) == (4, 5, 3)


def test_a_limit_on_scores_changes_precision_and_recall_alone(tmp_path):
    car = scored(tmp_path, least_score=0.65).classes[0]
    assert (car.precision, car.recall) == (pytest.approx(1 / 2), pytest.approx(1 / 3))
    assert car.ap_voc == pytest.approx(0.5)


def test_both_corners_belong_to_a_box(tmp_path):
    """10 by 10 pixels in 10 by 20: half, to the pixel."""
    truth, found = {"a": [("car", [1, 1, 10, 20], 0)]}, [("a", "car", 1.0, [1.0, 1.0, 10.0, 10.0])]
    assert scored(tmp_path, truth, found, iou=0.5).classes[0].ap_voc == 1
    (tmp_path / "again").mkdir()
    assert scored(tmp_path / "again", truth, found, iou=0.51).classes[0].ap_voc == 0


def test_of_detections_of_one_score_the_first_comes_first(tmp_path):
    found = [("b", "car", 0.5, FAR), ("b", "car", 0.5, [0.0, 0.0, 3.0, 3.0])]
    assert scored(tmp_path, found=found).classes[0].ap_voc == pytest.approx(1 / 3)
    (tmp_path / "again").mkdir()
    assert scored(tmp_path / "again", found=found[::-1]).classes[0].ap_voc == pytest.approx(1 / 6)


def tables(name, *, difficult):
    truth, found = drawn(name)
    images, _, classes = CASES[name]
    corners, boxes = truth[:, 3:].copy(), found[:, 3:].copy()
    corners[:, 2:] += 1
    boxes[:, 2:] += 1
    labels = Labels(
        images=tuple(map(str, range(images))),
        classes=tuple(map(str, range(classes))),
        image=truth[:, 0].astype(int),
        label=truth[:, 1].astype(int),
        corners=corners,
        ignored=truth[:, 2].astype(bool) & difficult,
        crowd=np.zeros(len(truth), bool),
    )
    return labels, Detections(found[:, 0].astype(int), found[:, 1].astype(int), found[:, 2], boxes)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_gluoncv(name):
    found = score(*tables(name, difficult=True), iou=0.5, least_score=0.0)
    pairs = [(row.ap_11, row.ap_voc) for row in found.classes]
    np.testing.assert_allclose(pairs, GOLDEN[name], atol=1e-8)


def test_cocos_program_agrees_where_boxes_lie_apart():
    """Each detection has but one box to be on; 101 points of recall stand for the area."""
    rng = np.random.default_rng(0)
    places = np.arange(100)
    corners = np.stack([places * 50, places * 50, places * 50 + 20, places * 50 + 20], axis=1).astype(float)
    zeros = np.zeros(100, int)
    labels = Labels(("a",), ("x",), zeros, zeros, corners, zeros.astype(bool), zeros.astype(bool))
    shift = np.where(rng.random(100) < 0.6, 2, 30)[:, None] * np.array([1, 0, 1, 0])
    detections = Detections(zeros, zeros, rng.permutation(100) / 100, corners + shift)
    (row,) = score(labels, detections, iou=0.5, least_score=0.0).classes
    assert row.ap_voc == pytest.approx(row.ap_50, abs=0.01)
    assert 0.2 < row.ap_voc < 0.6


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xml", "<annotation>", "a.xml: is not XML"),
        ("a.xml", "<html></html>", "a.xml: begins with <html>, expected <annotation>"),
        ("a.xml", "<!DOCTYPE a><annotation/>", "a.xml: has a document type"),
        (
            "a.xml",
            "<annotation><object><name>car</name></object></annotation>",
            "a.xml: object 1: has no <name> or no <bndbox>",
        ),
        (
            "a.xml",
            "<annotation><object><name>car</name><bndbox><xmin>x</xmin></bndbox></object></annotation>",
            "a.xml: object 1: <xmin> is 'x', expected a number",
        ),
    ],
)
def test_wrong_annotations_are_named(tmp_path, name, text, message):
    labels = write_annotations(tmp_path / "Annotations", TRUTH)
    (labels / name).write_text(text)
    with pytest.raises(ReadError, match=message):
        netweave.evaluate_boxes(labels, write_results(tmp_path / "Main", FOUND))


def test_a_box_inside_out_is_named(tmp_path):
    labels = write_annotations(tmp_path / "Annotations", {"a": [("car", [9, 9, 1, 10], 0)]})
    with pytest.raises(ReadError, match=r"object 1: its box is \[9.0, 9.0, 1.0, 10.0\], expected xmin, ymin"):
        netweave.evaluate_boxes(labels, tmp_path)


def test_a_folder_without_annotations_is_named(tmp_path):
    with pytest.raises(ReadError, match=r"contains no .xml files, expected one for each image"):
        netweave.evaluate_boxes(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "comp4_det_test_cat.txt",
            "a 0.5 1 1 2 2",
            "comp4_det_test_cat.txt: its name ends in no known class",
        ),
        ("car.txt", "a 0.5 1 1 2", "car.txt:1: has 5 words, expected 6"),
        ("car.txt", "\nz 0.5 1 1 2 2", "car.txt:2: image 'z' is not among the 3 images with labels"),
        ("car.txt", "a sure 1 1 2 2", "car.txt:1: a number is 'sure', expected a number"),
        ("car.txt", "a nan 1 1 2 2", "car.txt:1: a number is 'nan', expected a number"),
    ],
)
def test_wrong_results_are_named(tmp_path, name, text, message):
    labels = write_annotations(tmp_path / "Annotations", TRUTH)
    (tmp_path / name).write_text(text)
    with pytest.raises(ReadError, match=message):
        netweave.evaluate_boxes(labels, tmp_path / name)


def test_a_text_is_of_the_longest_class_that_its_name_ends_in(tmp_path):
    labels = write_annotations(tmp_path / "A", {"a": [("cab", BOX, 0), ("my_cab", FAR, 0)]})
    (tmp_path / "det_my_cab.txt").write_text(f"a 0.5 {' '.join(map(str, FAR))}")
    scores = netweave.evaluate_boxes(labels, tmp_path / "det_my_cab.txt")
    assert [row.num_found for row in scores.classes] == [0, 1]


def test_an_empty_text_has_found_nothing(tmp_path):
    labels = write_annotations(tmp_path / "Annotations", TRUTH)
    (tmp_path / "car.txt").write_text("")
    assert netweave.evaluate_boxes(labels, tmp_path / "car.txt").classes[0].ap_voc == 0

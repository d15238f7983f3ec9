"""``netweave evaluate-boxes``: the table, the JSON and what is wrong with a call."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pycocotools")

from tests.training.boxes.files import coco_labels, write_json

BOX = {"image_id": 11, "category_id": 5, "bbox": [0, 0, 100, 100]}


@pytest.fixture
def files(tmp_path):
    found = {"image_id": 11, "category_id": 5, "bbox": [0, 0, 77, 100], "score": 0.9}
    labels = write_json(tmp_path / "labels.json", coco_labels([BOX]))
    return str(labels), str(write_json(tmp_path / "found.json", [found, {**found, "score": 0.2}]))


def test_table_has_a_row_for_each_class_and_the_means(netweave, files):
    result = netweave("evaluate-boxes", *files)
    assert result.status == 0
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines() if line.strip()}
    assert rows["class0"] == ["1", "2", "1.000", "1.000", "1.000", "1.000", "0.600", "1.000", "1.000"]
    assert rows["class1"] == ["0", "0", *["-"] * 7]
    assert rows["mean"][:5] == ["1", "2", "1.000", "1.000", "1.000"]
    assert "2 images; precision and recall at a score of 0.5 or more and an overlap of 0.5" in result.out


def test_limits_and_json(netweave, files):
    result = netweave("evaluate-boxes", *files, "--score", "0.1", "--iou", "0.8", "--json", "-")
    scores = json.loads(result.out)
    assert (scores["iou"], scores["least_score"]) == (0.8, 0.1)
    first = scores["classes"][0]
    assert (first["precision"], first["recall"], first["ap_voc"]) == (0.0, 0.0, 0.0)
    assert scores["classes"][1]["ap_voc"] is None
    assert first["ap_coco"] == pytest.approx(0.6)  # COCO's overlaps are its own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--iou", "0"), "0.0 is not in the range 0<x<=1"),
        (("--score", "high"), "'high' is not a valid float"),
    ],
)
def test_wrong_limits_are_refused(netweave, files, arguments, message):
    result = netweave("evaluate-boxes", *files, *arguments)
    assert result.status == 2
    assert message in result.err


def test_a_file_that_is_missing_is_named(netweave, tmp_path):
    result = netweave("evaluate-boxes", str(tmp_path / "none.json"), "found.json")
    assert result.status == 2
    assert "none.json" in result.err

"""Boxes from a net's outputs: YOLO against OpenCV and Darknet's loops, SSD's rows by what they say."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import UsageError
from tests.oracles import recipe
from tests.oracles.yolo_cases import CASES, THRESHOLD

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "yolo_boxes.json").read_text())


def head_of(case, tmp_path):
    """Return a net that is a head alone, in front of which a convolution changes nothing."""
    channels = case.shape[1]
    (tmp_path / "net.cfg").write_text(case.text())
    numbers = np.concatenate([np.zeros(channels), np.eye(channels).ravel()]).astype("<f4")
    header = np.array([0, 2, 0, 0, 0], "<i4").tobytes()
    (tmp_path / "net.weights").write_bytes(header + numbers.tobytes())
    return netweave.load(tmp_path / "net.cfg")


def found_by(net, x, **limits):
    return netweave.find_boxes(net, netweave.run(net, {"data": x}), **limits)


@pytest.mark.parametrize("name", CASES)
def test_boxes_are_those_of_opencv(name, tmp_path):
    """In order of class and score; centres and sizes there, corners here."""
    case = CASES[name]
    net = head_of(case, tmp_path)
    found = found_by(net, recipe.draw(name, case.shape), threshold=THRESHOLD, overlap=case.overlap)
    expected = np.array(GOLDEN[name])
    np.testing.assert_array_equal(found.label, expected[:, 0])
    np.testing.assert_allclose(found.score, expected[:, 1], rtol=1e-4)
    centres, sizes = expected[:, 2:4], expected[:, 4:]
    corners = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1)
    np.testing.assert_allclose(found.corners, corners, rtol=1e-4, atol=1e-5)


def test_boxes_are_those_of_darknets_loops(tmp_path):
    """get_yolo_box and do_nms_sort, box by box, for two images."""
    case = CASES["yolo"]
    x = np.concatenate([recipe.draw(name, case.shape) for name in ("first", "second")])
    found = found_by(head_of(case, tmp_path), x, threshold=0.25, overlap=0.3)
    anchors, rows = [(2, 2), (3, 1.5)], []
    logistic = lambda value: 1 / (1 + exp(-value))  # noqa: E731
    for image, planes in enumerate(x.astype(float).reshape(2, 2, 8, 5, 6)):
        boxes = []
        for j, i, n in np.ndindex(5, 6, 2):
            raw = planes[n, :, j, i]
            centre = ((i + logistic(raw[0])) / 6, (j + logistic(raw[1])) / 5)
            size = (exp(raw[2]) * anchors[n][0] / 6, exp(raw[3]) * anchors[n][1] / 5)
            corners = [c - s / 2 for c, s in zip(centre, size, strict=True)]
            corners += [c + s / 2 for c, s in zip(centre, size, strict=True)]
            boxes.append((corners, [logistic(raw[4]) * logistic(value) for value in raw[5:]]))
        for label in range(3):
            likely = sorted((b for b in boxes if b[1][label] > 0.25), key=lambda b: -b[1][label])
            kept = []
            for box, scores in likely:
                if all(overlap(box, other) <= 0.3 for other in kept):
                    kept.append(box)
                    rows.append((image, label, scores[label], *box))
    assert len(rows) > 10
    table = np.column_stack([found.image, found.label, found.score, found.corners])
    np.testing.assert_allclose(table, rows, rtol=1e-4, atol=1e-5)


def overlap(a, b):
    width, height = (min(a[k + 2], b[k + 2]) - max(a[k], b[k]) for k in (0, 1))
    if width <= 0 or height <= 0:
        return 0.0
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / (both - width * height)


def test_heads_of_one_net_are_one_set_of_boxes(tmp_path):
    """Two heads on the same numbers: every box of the second overlaps its twin."""
    case = CASES["yolo"]
    text = case.text()
    twice = text + "[route]\nlayers=0\n" + text[text.index("[yolo]") :]
    net = head_of(case, tmp_path)
    x = recipe.draw("yolo", case.shape)
    once = found_by(net, x, threshold=0.3, overlap=0.4)
    (tmp_path / "net.cfg").write_text(twice)
    again = found_by(netweave.load(tmp_path / "net.cfg"), x, threshold=0.3, overlap=0.4)
    np.testing.assert_allclose(again.corners, once.corners)


def test_a_threshold_that_nothing_passes_leaves_no_box(tmp_path):
    case = CASES["yolo"]
    found = found_by(head_of(case, tmp_path), recipe.draw("yolo", case.shape), threshold=1.0)
    assert (len(found.label), found.corners.shape) == (0, (0, 4))


SSD = """
input: "loc" input_shape { dim: 2 dim: 8 }
input: "conf" input_shape { dim: 2 dim: 6 }
input: "priors" input_shape { dim: 1 dim: 2 dim: 8 }
layer { name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors" top: "out"
  detection_output_param { num_classes: 3 nms_param { nms_threshold: 0.5 } } }
"""


def test_rows_of_ssd_are_boxes(tmp_path):
    (tmp_path / "ssd.prototxt").write_text(SSD)
    net = netweave.load(tmp_path / "ssd.prototxt")
    priors = np.zeros((1, 2, 8), np.float32)
    priors[0, 0] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.9, 0.8]
    conf = np.float32([[0.1, 0.9, 0.0, 0.2, 0.2, 0.6], [0.9, 0.05, 0.05, 0.3, 0.0, 0.7]])
    outputs = netweave.run(net, {"loc": np.zeros((2, 8), np.float32), "conf": conf, "priors": priors})
    found = netweave.find_boxes(net, outputs, threshold=0.5)
    assert found.image.tolist() == [0, 0, 1]
    assert found.label.tolist() == [1, 2, 2]
    np.testing.assert_allclose(found.score, [0.9, 0.6, 0.7], rtol=1e-6)
    np.testing.assert_allclose(found.corners, priors[0, 0].reshape(2, 4)[[0, 1, 1]], rtol=1e-6)


def test_a_net_without_boxes_is_refused(tmp_path):
    text = 'input: "x" input_shape { dim: 1 dim: 3 } layer { name: "y" type: "ReLU" bottom: "x" top: "y" }'
    (tmp_path / "net.prototxt").write_text(text)
    net = netweave.load(tmp_path / "net.prototxt")
    with pytest.raises(
        UsageError, match=r"no output contains boxes, expected heads of Darknet \(yolo, region\)"
    ):
        netweave.find_boxes(net, {"y": np.zeros((1, 3), np.float32)})


def test_anchors_that_are_missing_are_named(tmp_path):
    case = CASES["yolo"]
    (tmp_path / "net.cfg").write_text(case.text().replace("anchors=1,2, 2,2, 3,1.5", "anchors=1,2"))
    net = netweave.load(tmp_path / "net.cfg")
    outputs = netweave.run(net, {"data": recipe.draw("yolo", case.shape)})
    with pytest.raises(UsageError, match=r"net.cfg:\d+.* has 1 anchors, expected 3 or more"):
        netweave.find_boxes(net, outputs)

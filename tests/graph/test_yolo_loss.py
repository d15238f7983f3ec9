"""YOLO's losses against loops over scalars, after forward_yolo_layer and forward_region_layer."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from netweave.errors import RunError
from netweave.graph import find_operator
from netweave.graph.ops.regions import STATISTICS, region_delta, yolo_delta

CLASSES, HEIGHT, WIDTH = 3, 4, 5
YOLO = {
    "anchors": [10.0, 14.0, 23.0, 27.0, 37.0, 58.0, 81.0, 82.0],
    "mask": [1, 2, 3],
    "classes": CLASSES,
    "width": 160,
    "height": 128,
    "ignore_thresh": 0.3,
    "truth_thresh": 1.0,
}
REGION = {
    "anchors": [1.1, 1.2, 2.5, 1.7, 3.0, 3.5],
    "classes": CLASSES,
    "softmax": 1,
    "bias_match": 1,
    "rescore": 1,
    "thresh": 0.3,
    "coord_scale": 1.5,
    "object_scale": 5.0,
    "noobject_scale": 0.7,
    "class_scale": 1.3,
    "seen": 20000,
}


def drawn(seed, num_anchors=3):
    """Return a layer's input and ground truth: two boxes in one cell, an image without, one on the edge."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, num_anchors * (5 + CLASSES), HEIGHT, WIDTH))
    truth = np.zeros((3, 6, 6))
    for image, count in ((0, 5), (2, 3)):
        truth[image, :count, :2] = rng.uniform(0.02, 0.98, (count, 2))
        truth[image, :count, 2:4] = rng.uniform(0.05, 0.6, (count, 2))
        truth[image, :count, 4] = rng.integers(0, CLASSES, count)
    truth[0, 1] = truth[0, 0]
    truth[0, 1, 4] = (truth[0, 0, 4] + 1) % CLASSES  # the same box is of a second class
    truth[2, 0, :2] = 0.999
    return x, truth


def logistic(value):
    return 1.0 / (1.0 + exp(-value))


def box_iou(a, b):
    wide = min(a[0] + a[2] / 2, b[0] + b[2] / 2) - max(a[0] - a[2] / 2, b[0] - b[2] / 2)
    tall = min(a[1] + a[3] / 2, b[1] + b[3] / 2) - max(a[1] - a[3] / 2, b[1] - b[3] / 2)
    common = wide * tall if wide > 0 and tall > 0 else 0.0
    return common / (a[2] * a[3] + b[2] * b[3] - common)


def boxes_of(rows):
    """The boxes of an image end where x is 0."""
    kept = []
    for row in rows:
        if row[0] == 0:
            break
        kept.append(row)
    return kept


class Loops:
    """The delta of one layer, cell by cell; ``unit`` is what an anchor of 1 is of the image."""

    def __init__(self, x, settings, anchors, unit, *, softmax):
        images, _, self.h, self.w = x.shape
        self.anchors, self.unit, self.s = anchors, unit, settings
        self.n, size = len(anchors), 5 + CLASSES
        self.out = x.astype(float).reshape(images, self.n, size, self.h, self.w).copy()
        self.delta = np.zeros_like(self.out)
        for b, n, j, i in self.cells(images):
            cell = self.out[b, n, :, j, i]
            for k in (0, 1, 4):
                cell[k] = logistic(cell[k])
            if softmax:
                total = sum(exp(value) for value in cell[5:])
                cell[5:] = [exp(value) / total for value in cell[5:]]
            else:
                cell[5:] = [logistic(value) for value in cell[5:]]

    def cells(self, images):
        for b in range(images):
            for j in range(self.h):
                for i in range(self.w):
                    for n in range(self.n):
                        yield b, n, j, i

    def predicted(self, b, n, j, i):
        x, y, w, h = self.out[b, n, :4, j, i]
        wide, tall = (exp(v) * a * u for v, a, u in zip((w, h), self.anchors[n], self.unit, strict=True))
        return (i + x) / self.w, (j + y) / self.h, wide, tall

    def box(self, cell, truth, scale):
        b, n, j, i = cell
        wanted = (
            truth[0] * self.w - i,
            truth[1] * self.h - j,
            log(truth[2] / self.unit[0] / self.anchors[n][0]),
            log(truth[3] / self.unit[1] / self.anchors[n][1]),
        )
        for k in range(4):
            self.delta[b, n, k, j, i] = scale * (wanted[k] - self.out[b, n, k, j, i])
        return box_iou(self.predicted(*cell), truth)

    def classes(self, cell, label, scale, *, several):
        b, n, j, i = cell
        out, delta = self.out[b, n, 5:, j, i], self.delta[b, n, 5:, j, i]
        if several and delta[0] != 0:
            delta[label] = scale * (1 - out[label])
            return
        for k in range(CLASSES):
            delta[k] = scale * ((1 if k == label else 0) - out[k])

    def best(self, cell, truths):
        best, which = 0.0, 0
        for t, truth in enumerate(truths):
            overlap = box_iou(self.predicted(*cell), truth)
            if overlap > best:
                best, which = overlap, t
        return best, which


def yolo_loops(x, truth, s):
    pairs = list(zip(s["anchors"][::2], s["anchors"][1::2], strict=True))
    loops = Loops(x, s, [pairs[k] for k in s["mask"]], (1 / s["width"], 1 / s["height"]), softmax=False)
    for b in range(len(x)):
        truths = boxes_of(truth[b])
        for cell in (c for c in loops.cells(len(x)) if c[0] == b):
            _, n, j, i = cell
            best, which = loops.best(cell, truths)
            objectness = loops.out[b, n, 4, j, i]
            loops.delta[b, n, 4, j, i] = 0.0 if best > s["ignore_thresh"] else -objectness
            if best > s["truth_thresh"]:
                near = truths[which]
                loops.delta[b, n, 4, j, i] = 1 - objectness
                loops.classes(cell, int(near[4]), 1.0, several=True)
                loops.box(cell, near, 2 - near[2] * near[3])
        for row in truths:
            i, j = int(row[0] * loops.w), int(row[1] * loops.h)
            overlaps = [box_iou((0, 0, w / s["width"], h / s["height"]), (0, 0, *row[2:4])) for w, h in pairs]
            anchor = overlaps.index(max(overlaps))
            if anchor not in s["mask"]:
                continue
            cell = (b, s["mask"].index(anchor), j, i)
            loops.box(cell, row, 2 - row[2] * row[3])
            loops.delta[b, cell[1], 4, j, i] = 1 - loops.out[b, cell[1], 4, j, i]
            loops.classes(cell, int(row[4]), 1.0, several=True)
    return loops.delta


def region_loops(x, truth, s):
    pairs = list(zip(s["anchors"][::2], s["anchors"][1::2], strict=True))
    loops = Loops(x, s, pairs, (1 / x.shape[3], 1 / x.shape[2]), softmax=s["softmax"])
    for b in range(len(x)):
        truths = boxes_of(truth[b])
        for cell in (c for c in loops.cells(len(x)) if c[0] == b):
            _, n, j, i = cell
            best, _ = loops.best(cell, truths)
            objectness = loops.out[b, n, 4, j, i]
            loops.delta[b, n, 4, j, i] = 0 if best > s["thresh"] else -s["noobject_scale"] * objectness
            if s["seen"] < 12800:
                wide, tall = (a * u for a, u in zip(pairs[n], loops.unit, strict=True))
                loops.box(cell, ((i + 0.5) / loops.w, (j + 0.5) / loops.h, wide, tall), 0.01)
        for row in truths:
            i, j = int(row[0] * loops.w), int(row[1] * loops.h)
            overlaps = []
            for n in range(loops.n):
                _, _, wide, tall = loops.predicted(b, n, j, i)
                if s["bias_match"]:
                    wide, tall = (a * u for a, u in zip(pairs[n], loops.unit, strict=True))
                overlaps.append(box_iou((0, 0, wide, tall), (0, 0, *row[2:4])))
            n = overlaps.index(max(overlaps))
            overlap = loops.box((b, n, j, i), row, s["coord_scale"] * (2 - row[2] * row[3]))
            wanted = overlap if s["rescore"] else 1
            loops.delta[b, n, 4, j, i] = s["object_scale"] * (wanted - loops.out[b, n, 4, j, i])
            loops.classes((b, n, j, i), int(row[4]), s["class_scale"], several=not s["softmax"])
    for b, n, j, i in loops.cells(len(x)):
        for k in (0, 1, 4):
            loops.delta[b, n, k, j, i] *= loops.out[b, n, k, j, i] * (1 - loops.out[b, n, k, j, i])
    return loops.delta


YOLO_CASES = [{}, {"ignore_thresh": 0.05}, {"truth_thresh": 0.2}, {"mask": [0, 1, 2]}, {"mask": [0, 1, 2, 3]}]


@pytest.mark.parametrize("change", YOLO_CASES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_the_delta_of_a_yolo_layer_is_that_of_the_loops(change, seed):
    s = {**YOLO, **change}
    x, truth = drawn(seed, len(s["mask"]))
    assert np.abs(yolo_delta(x, truth, s).delta - yolo_loops(x, truth, s)).max() < 1e-12


REGION_CASES = [{}, {"seen": 12799}, {"seen": 12800}, {"bias_match": 0}, {"rescore": 0}, {"softmax": 0}]


@pytest.mark.parametrize("change", REGION_CASES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_the_delta_of_a_region_layer_is_that_of_the_loops(change, seed):
    s = {**REGION, **change}
    x, truth = drawn(seed)
    assert np.abs(region_delta(x, truth, s).delta - region_loops(x, truth, s)).max() < 1e-12


def test_images_seen_decide_about_the_pull_towards_the_anchors():
    x, truth = drawn(0)
    before, after = (region_delta(x, truth, {**REGION, "seen": seen}).delta for seen in (12799, 12800))
    assert np.abs(before - after)[1, :, :4].min() > 0  # an image without boxes: every cell differs


@pytest.mark.parametrize(("op_type", "settings"), [("YoloLoss", YOLO), ("RegionLoss", REGION)])
def test_the_gradient_in_float32_is_the_delta_over_the_batch(op_type, settings):
    x, truth = drawn(3)
    entry = find_operator(op_type)
    inputs = [x.astype(np.float32), truth.astype(np.float32)]
    outputs = entry.forward(inputs, settings)
    gradient, nothing = entry.gradient(inputs, outputs, [np.float32(1), None], settings)
    loops = yolo_loops if op_type == "YoloLoss" else region_loops
    delta = loops(*(array.astype(np.float64) for array in inputs), settings)
    assert nothing is None
    assert np.abs(gradient.reshape(delta.shape) + delta / 3).max() < 1e-6
    assert outputs[0] == pytest.approx((delta**2).sum() / 3, rel=1e-6)


def test_the_statistics_are_those_that_darknet_prints():
    x, truth = drawn(1)
    x[:], truth[:] = 0, 0
    truth[0, 0] = 2.5 / WIDTH, 1.5 / HEIGHT, 23 / 160, 27 / 128, 1, 0  # anchor 1, in the middle of a cell
    found = dict(zip(STATISTICS, yolo_delta(x, truth, YOLO).statistics(), strict=True))
    halves = dict.fromkeys(("Class", "Obj", "No Obj"), 0.5)
    assert found == pytest.approx({**dict.fromkeys(STATISTICS, 1.0), **halves})


def test_a_box_of_an_unknown_class_is_an_error():
    x, truth = drawn(0)
    truth[2, 1, 4] = CLASSES
    with pytest.raises(RunError, match="has the class 3, expected 0 to 2"):
        yolo_delta(x, truth, YOLO)


def test_a_centre_on_the_far_edge_is_in_the_last_cell():
    x, truth = drawn(0)
    truth[0, 0, :2] = 1.0
    assert np.isfinite(region_delta(x, truth, REGION).delta).all()

"""SSD's loss against the loops of bbox_util.cpp, and its gradient against differences of its forward."""

from __future__ import annotations

from math import exp, log, log1p

import numpy as np
import pytest

from netweave.errors import RunError
from netweave.graph import find_operator

SETTINGS = {
    "loc_loss": "SMOOTH_L1",
    "conf_loss": "SOFTMAX",
    "loc_weight": 1.0,
    "conf_weight": 1.0,
    "match_type": "PER_PREDICTION",
    "overlap_threshold": 0.5,
    "background_label_id": 0,
    "use_difficult_gt": 1,
    "ignore_cross_boundary_bbox": 0,
    "mining_type": "MAX_NEGATIVE",
    "neg_pos_ratio": 3.0,
    "neg_overlap": 0.5,
    "code_type": "CENTER_SIZE",
    "encode_variance_in_target": 0,
    "normalization": "VALID",
}
NUM_PRIORS, NUM_CLASSES = 30, 4


def drawn(seed, *, shared=True):
    """Return locations, scores, priors and truth of three images, one of them without any box."""
    rng = np.random.default_rng(seed)
    centres, sizes = rng.uniform(0, 1, (NUM_PRIORS, 2)), rng.uniform(0.2, 0.5, (NUM_PRIORS, 2))
    priors = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1)
    variances = np.tile([0.1, 0.15, 0.2, 0.3], (NUM_PRIORS, 1))
    truth = []
    for image, count in ((0, 3), (2, 5)):
        for number in range(count):
            low, side = rng.uniform(0, 0.6, 2), rng.uniform(0.2, 0.4, 2)
            truth.append([image, rng.integers(1, NUM_CLASSES), number, *low, *(low + side), number % 2])
    truth.append([-1] * 8)
    loc = rng.standard_normal((3, NUM_PRIORS * 4 * (1 if shared else NUM_CLASSES)))
    conf = 2 * rng.standard_normal((3, NUM_PRIORS * NUM_CLASSES))
    return [loc, conf, np.stack([priors, variances]).reshape(1, 2, -1), np.array(truth)[None, None]]


def jaccard(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    common = width * height
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def matched(boxes, truth, s):
    """MatchBBox, as its loops are."""
    index, best = [-1] * len(boxes), [0.0] * len(boxes)
    common = {}
    for i, box in enumerate(boxes):
        if s["ignore_cross_boundary_bbox"] and any(not 0 <= side <= 1 for side in box):
            index[i] = -2
            continue
        for j, row in enumerate(truth):
            overlap = jaccard(box, row[3:7])
            if overlap > 1e-6:
                best[i] = max(best[i], overlap)
                common[i, j] = overlap
    pool = list(range(len(truth)))
    while pool:
        pairs = [(i, j) for (i, j) in common if index[i] == -1 and j in pool]
        if not pairs:
            break
        i, j = max(pairs, key=lambda pair: common[pair])
        index[i] = j
        pool.remove(j)
    for i in range(len(boxes)):
        if s["match_type"] == "PER_PREDICTION" and index[i] == -1:
            able = [j for j in range(len(truth)) if common.get((i, j), -1) >= s["overlap_threshold"]]
            if able:
                index[i] = max(able, key=lambda j: common[i, j])
    return index, best


def score_loss(scores, label, kind):
    if kind == "SOFTMAX":
        return log(sum(exp(x - scores[label]) for x in scores))
    return sum(max(x, 0) - x * (c == label) + log1p(exp(-abs(x))) for c, x in enumerate(scores))


def target(box, row, code_type):
    """EncodeBBox, without variances."""
    width, height = box[2] - box[0], box[3] - box[1]
    if code_type == "CENTER_SIZE":
        x, y = (row[3] + row[5] - box[0] - box[2]) / 2, (row[4] + row[6] - box[1] - box[3]) / 2
        return [x / width, y / height, log((row[5] - row[3]) / width), log((row[6] - row[4]) / height)]
    sides = [width, height] * 2 if code_type == "CORNER_SIZE" else [1] * 4
    return [(row[3 + k] - box[k]) / sides[k] for k in range(4)]


def reference(inputs, s):
    """MultiBoxLossLayer::Forward_cpu."""
    loc, conf, (priors, variances), truth = inputs[0], inputs[1], *inputs[2], inputs[3][0, 0]
    priors, variances = priors.reshape(-1, 4), variances.reshape(-1, 4)
    loc_total = conf_total = 0.0
    num_matches = 0
    for image in range(len(loc)):
        scores = conf[image].reshape(NUM_PRIORS, NUM_CLASSES)
        boxes = loc[image].reshape(NUM_PRIORS, -1, 4)
        rows = [r for r in truth if r[0] == image and (s["use_difficult_gt"] or not r[7])]
        labels = [0] * NUM_PRIORS
        index, best = matched(priors, rows, s) if rows else ([-1] * NUM_PRIORS, [])
        for i in [i for i in range(NUM_PRIORS) if index[i] > -1]:
            row = rows[index[i]]
            labels[i] = int(row[1])
            num_matches += 1
            said = boxes[i][labels[i] if boxes.shape[1] > 1 else 0]
            for k, wanted in enumerate(target(priors[i], row, s["code_type"])):
                # with the variance in the target both are divided by it, otherwise the target alone
                inside = s["encode_variance_in_target"]
                gap = (said[k] / variances[i][k] if inside else said[k]) - wanted / variances[i][k]
                smooth = s["loc_loss"] == "SMOOTH_L1" and abs(gap) >= 1
                loc_total += abs(gap) - 0.5 if smooth else gap**2 / 2
        if s["mining_type"] == "NONE":
            conf_total += sum(score_loss(scores[i], labels[i], s["conf_loss"]) for i in range(NUM_PRIORS))
        elif rows:
            able = [i for i in range(NUM_PRIORS) if index[i] == -1 and best[i] < s["neg_overlap"]]
            able.sort(key=lambda i: -score_loss(scores[i], 0, s["conf_loss"]))
            hits = [i for i in range(NUM_PRIORS) if index[i] > -1]
            worst = able[: int(len(hits) * s["neg_pos_ratio"])]
            conf_total += sum(score_loss(scores[i], labels[i], s["conf_loss"]) for i in hits + worst)
    divisor = {"VALID": num_matches, "FULL": 3 * NUM_PRIORS, "BATCH_SIZE": 3, "NONE": 1}[s["normalization"]]
    return (s["loc_weight"] * loc_total + s["conf_weight"] * conf_total) / max(1, divisor)


VARIANTS = [
    {},
    {"loc_loss": "L2", "loc_weight": 0.5},
    {"conf_loss": "LOGISTIC"},
    {"match_type": "BIPARTITE"},
    {"overlap_threshold": 0.2, "neg_overlap": 0.2},
    {"neg_pos_ratio": 0.7, "neg_overlap": 0.1},
    {"neg_pos_ratio": 1000.0},
    {"ignore_cross_boundary_bbox": 1},
    {"use_difficult_gt": 0},
    {"mining_type": "NONE"},
    {"code_type": "CORNER"},
    {"code_type": "CORNER_SIZE", "loc_loss": "L2"},
    {"encode_variance_in_target": 1},
    {"normalization": "FULL"},
    {"normalization": "BATCH_SIZE"},
    {"normalization": "NONE"},
    {"conf_weight": 0.0},
]


def forward(inputs, **settings):
    return find_operator("MultiBoxLoss").forward(inputs, SETTINGS | settings)[0].item()


def gradient(inputs, **settings):
    above = [np.array(0.7)]
    return find_operator("MultiBoxLoss").gradient(inputs, [], above, SETTINGS | settings)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_loss_is_that_of_the_loops(settings, seed):
    inputs = drawn(seed)
    assert forward(inputs, **settings) == pytest.approx(reference(inputs, SETTINGS | settings), rel=1e-12)


@pytest.mark.parametrize("code_type", ["CORNER", "CENTER_SIZE"])
def test_locations_of_each_class_are_those_of_the_boxs_class(code_type):
    settings = {"mining_type": "NONE", "code_type": code_type}
    inputs = drawn(7, shared=False)
    assert forward(inputs, **settings) == pytest.approx(reference(inputs, SETTINGS | settings), rel=1e-12)
    check_gradient(inputs, **settings)


def check_gradient(inputs, **settings):
    """Along drawn directions, each of which all elements are part of."""
    rng = np.random.default_rng(0)
    found = gradient(inputs, **settings)
    assert found[2:] == [None, None]
    for index in (0, 1):
        for _ in range(8):
            direction = rng.standard_normal(inputs[index].shape)
            values = []
            for sign in (1, -1):
                arrays = list(inputs)
                arrays[index] = inputs[index] + sign * 1e-6 * direction
                values.append(forward(arrays, **settings))
            slope = 0.7 * (values[0] - values[1]) / 2e-6
            assert (found[index] * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("settings", [s for s in VARIANTS if "encode_variance_in_target" not in s], ids=str)
def test_gradient_is_that_of_the_forward(settings):
    check_gradient(drawn(1), **settings)


def test_gradient_with_the_variance_in_the_target_is_caffes():
    """EncodeLocPrediction divides what is said by the variance; Backward_cpu copies the slope as it is."""
    inputs = drawn(1)
    settings = {"encode_variance_in_target": 1, "loc_loss": "L2", "normalization": "NONE"}
    whole = gradient(inputs, **settings)[0].reshape(3, NUM_PRIORS, 4)
    plain = gradient(inputs, loc_loss="L2", normalization="NONE")[0].reshape(3, NUM_PRIORS, 4)
    hits = plain.any(axis=2)
    assert hits.any()
    assert (whole.any(axis=2) == hits).all()
    said, variances = inputs[0].reshape(3, NUM_PRIORS, 4)[hits], np.array([0.1, 0.15, 0.2, 0.3])
    np.testing.assert_allclose(whole[hits] - plain[hits], 0.7 * (said / variances - said), rtol=1e-9)


def test_without_any_box_there_is_no_loss_and_no_gradient():
    inputs = drawn(0)
    inputs[3] = np.full((1, 1, 1, 8), -1.0)
    assert forward(inputs) == 0
    assert not any(part.any() for part in gradient(inputs)[:2])
    assert forward(inputs, mining_type="NONE") > 0


def test_the_first_of_equal_losses_count():
    inputs = drawn(0)
    inputs[1][:] = 0
    slope = gradient(inputs)[1].reshape(3, NUM_PRIORS, NUM_CLASSES)
    counted = np.flatnonzero(slope[0].any(axis=1))
    index, best = matched(inputs[2][0, 0].reshape(-1, 4), [r for r in inputs[3][0, 0] if r[0] == 0], SETTINGS)
    able = [i for i in range(NUM_PRIORS) if index[i] == -1 and best[i] < 0.5]
    hits = [i for i in range(NUM_PRIORS) if index[i] > -1]
    assert counted.tolist() == sorted(hits + able[: 3 * len(hits)])


@pytest.mark.parametrize("label", [0, -3, 4])
def test_a_box_of_a_class_that_cannot_be_is_refused(label):
    inputs = drawn(0)
    inputs[3][0, 0, 0, 1] = label
    with pytest.raises(
        RunError, match=f"a ground-truth box has the class {label}, expected 0 to 3, and not 0"
    ):
        forward(inputs)


@pytest.mark.parametrize(
    ("priors", "truth", "message"),
    [
        ((1, 3, 8), (1, 1, 2, 8), r"priors of shape \(1, 3, 8\), expected \(1, 2, 4 for each\)"),
        ((1, 2, 7), (1, 1, 2, 8), "priors of shape"),
        ((1, 2, 8), (1, 1, 2, 7), "7 numbers for each ground-truth box, expected 8"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(priors, truth, message):
    with pytest.raises(ValueError, match=message):
        find_operator("MultiBoxLoss").shapes([(1, 8), (1, 6), priors, truth], SETTINGS)

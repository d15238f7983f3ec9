"""SSD's loss in Caffe: which priors stand for which boxes of the truth, and what the heads should have said.

N images, P priors, C classes, L boxes of a prior: 1, or C where locations are not shared by the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, operator
from netweave.graph.ops.detection import LEAST_OVERLAP, encoded, overlaps, pair_best

Arrays = Sequence[np.ndarray]
Gradients = Sequence[np.ndarray | None]
Shapes = Sequence[tuple[Dim, ...]]

TRUTH_COLUMNS = 8
"""Of a box of the truth: image (-1 for none), class, number, x0, y0, x1, y1, difficult."""

_OUTSIDE = -2
_TINY = np.finfo(np.float32).tiny

LOSS_DEFAULTS = {
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
    "code_type": "CORNER",
    "encode_variance_in_target": 0,
    "normalization": "VALID",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The selection for the loss: M priors matched to a ground-truth box, K priors whose scores count.

    Attributes:
        image: Of each of the M.
        prior: Of each of the M.
        slot: Which of its L boxes.
        targets: What its location should be, (M, 4).
        scale: What the differences of locations are divided by, (M, 4).
        conf_image: Of each of the K.
        conf_prior: Of each of the K.
        labels: The class that it should be.
        divisor: What the sum of losses is divided by.
    """

    image: np.ndarray
    prior: np.ndarray
    slot: np.ndarray
    targets: np.ndarray
    scale: np.ndarray
    conf_image: np.ndarray
    conf_prior: np.ndarray
    labels: np.ndarray
    divisor: float


def choose(loc: np.ndarray, conf: np.ndarray, priors: np.ndarray, truth: np.ndarray, s: Attributes) -> Chosen:
    """Return what the loss looks at: bbox_util.cpp, FindMatches and MineHardExamples.

    Args:
        loc: (N, P, L, 4).
        conf: (N, P, C).
        priors: Boxes and variances, (2, P, 4).
        truth: (G, 8), see ``TRUTH_COLUMNS``.
        s: Settings by the names of ``LOSS_DEFAULTS``.

    Raises:
        RunError: A box of the truth is of the background, or of a class that there is not.
    """
    truth = _kept_truth(truth, conf.shape, s)
    positives: list[np.ndarray] = []
    counted: list[np.ndarray] = []
    for image in range(len(conf)):
        rows = np.flatnonzero(truth[:, 0].astype(np.int64) == image)
        if not len(rows):
            continue
        matched, best = match(overlaps(priors[0][:, None], truth[rows, 3:7]), priors[0], s)
        hits = np.flatnonzero(matched >= 0)
        positives.append(np.stack([np.full(len(hits), image), hits, rows[matched[hits]]], axis=1))
        misses = _mined(conf[image], matched, best, s)
        background = np.full(len(misses), s["background_label_id"])
        labels = truth[rows[matched[hits]], 1].astype(np.int64)
        both = np.concatenate([hits, misses])
        counted.append(
            np.stack([np.full(len(both), image), both, np.concatenate([labels, background])], axis=1)
        )
    places = np.concatenate([np.empty((0, 3), np.int64), *positives])
    scores = np.concatenate([np.empty((0, 3), np.int64), *counted])
    if s["mining_type"] == "NONE":
        scores = _all_scores(conf.shape, scores, s)
    image, prior, row = places.T
    conf_image, conf_prior, labels = scores.T
    own, variances = truth[row], priors[1][prior]
    targets, scale = encoded(priors[0][prior], own[:, 3:7], s["code_type"]), variances
    if not s["encode_variance_in_target"]:
        targets, scale = targets / variances, np.ones_like(variances)
    divisor = {
        "FULL": conf.shape[0] * conf.shape[1],
        "VALID": len(places),
        "BATCH_SIZE": len(conf),
        "NONE": 1,
    }
    return Chosen(
        image=image,
        prior=prior,
        slot=own[:, 1].astype(np.int64) if loc.shape[2] > 1 else np.zeros_like(prior),
        targets=targets,
        scale=scale,
        conf_image=conf_image,
        conf_prior=conf_prior,
        labels=labels,
        divisor=float(max(1, divisor[s["normalization"]])),
    )


def _kept_truth(truth: np.ndarray, shape: Sequence[int], s: Attributes) -> np.ndarray:
    """Return the boxes that count (GetGroundTruth), whose classes must be right."""
    truth = truth[truth[:, 0] != -1]
    labels = truth[:, 1].astype(np.int64)
    wrong = (labels == s["background_label_id"]) | (labels < 0) | (labels >= shape[2])
    if wrong.any():
        raise RunError(
            f"a ground-truth box has the class {labels[wrong][0]}, expected 0 to {shape[2] - 1}, and not "
            f"{s['background_label_id']}, which is the background"
        )
    return truth if s["use_difficult_gt"] else truth[truth[:, 7] == 0]


def match(common: np.ndarray, boxes: np.ndarray, s: Attributes) -> tuple[np.ndarray, np.ndarray]:
    """Return the box of the truth of each prior (-1: none, -2: left out), and its largest overlap: MatchBBox.

    First each box of the truth takes a prior, the best pair of all that are left at a time; then, with
    ``PER_PREDICTION``, every prior that has none takes the box that it overlaps most, at least so much.

    Args:
        common: Overlaps of priors and boxes of the truth, (P, G).
        boxes: The priors, (P, 4).
        s: Settings.
    """
    matched = np.full(len(common), -1)
    if s["ignore_cross_boundary_bbox"]:
        matched[((boxes < 0) | (boxes > 1)).any(axis=1)] = _OUTSIDE
    common = np.where((common > LEAST_OVERLAP) & (matched != _OUTSIDE)[:, None], common, 0)
    best = common.max(axis=1)
    pairs = pair_best(common)
    matched[pairs >= 0] = pairs[pairs >= 0]
    if s["match_type"] == "PER_PREDICTION":
        free = (matched == -1) & (best > 0) & (best >= best.dtype.type(s["overlap_threshold"]))
        matched[free] = common[free].argmax(axis=1)
    return matched, best


def _mined(conf: np.ndarray, matched: np.ndarray, best: np.ndarray, s: Attributes) -> np.ndarray:
    """Return the priors without a box whose scores count as background: the worst, so many for each hit.

    Where losses are equal, Caffe's sort leaves open which count; here it is the first.
    """
    if s["mining_type"] == "NONE":
        return np.empty(0, np.int64)
    open_ = np.flatnonzero((matched == -1) & (best < best.dtype.type(s["neg_overlap"])))
    count = min(int((matched >= 0).sum() * np.float32(s["neg_pos_ratio"])), len(open_))
    label = np.full(len(open_), s["background_label_id"])
    losses = score_losses(conf[open_], label, s["conf_loss"])
    return np.sort(open_[np.argsort(-losses, kind="stable")[:count]])


def _all_scores(shape: Sequence[int], hits: np.ndarray, s: Attributes) -> np.ndarray:
    """Return every prior of every image with its class: what counts where nothing is mined."""
    labels = np.full(shape[:2], s["background_label_id"])
    labels[hits[:, 0], hits[:, 1]] = hits[:, 2]
    image, prior = np.indices(shape[:2])
    return np.stack([image.ravel(), prior.ravel(), labels.ravel()], axis=1)


def score_losses(scores: np.ndarray, labels: np.ndarray, kind: str) -> np.ndarray:
    """Return the loss of each row: ``SOFTMAX``, or ``LOGISTIC`` with a target of 1 for its class."""
    if kind == "SOFTMAX":
        p = _softmax(scores)[np.arange(len(labels)), labels]
        return np.asarray(-np.log(np.maximum(p, _TINY)))
    losses = np.maximum(scores, 0) - scores * _hits(scores, labels) + np.log1p(np.exp(-np.abs(scores)))
    return np.asarray(losses.sum(axis=1))


def _softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _hits(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return 1 at the class of each row, and 0 elsewhere."""
    return np.asarray(np.arange(scores.shape[1]) == labels[:, None], scores.dtype)


def _parts(inputs: Arrays) -> tuple[np.ndarray, ...]:
    """Return locations (N, P, L, 4), scores (N, P, C), priors (2, P, 4) and truth (G, 8)."""
    loc, conf, priors, truth = inputs
    num = priors.shape[2] // 4
    return (
        loc.reshape(len(loc), num, -1, 4),
        conf.reshape(len(conf), num, -1),
        priors.reshape(2, num, 4),
        truth.reshape(-1, TRUTH_COLUMNS),
    )


def _loss_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    priors, truth = shapes[2:]
    if len(priors) < 3 or priors[1] != 2 or (isinstance(priors[2], int) and priors[2] % 4):
        raise ValueError(f"priors of shape ({', '.join(map(str, priors))}), expected (1, 2, 4 for each)")
    if truth[-1] != TRUTH_COLUMNS:
        raise ValueError(f"{truth[-1]} numbers for each ground-truth box, expected {TRUTH_COLUMNS}")
    return [()]


def _gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    s = {**LOSS_DEFAULTS, **attributes}
    loc, conf, priors, truth = _parts(inputs)
    chosen = choose(loc, conf, priors, truth, s)
    above = gradients[0] / chosen.divisor
    to_loc, to_conf = np.zeros_like(loc), np.zeros_like(conf)
    gap = _gaps(loc, chosen)
    slope = gap if s["loc_loss"] == "L2" else np.clip(gap, -1, 1)
    to_loc[chosen.image, chosen.prior, chosen.slot] = slope * s["loc_weight"] * above
    scores = conf[chosen.conf_image, chosen.conf_prior]
    p = _softmax(scores) if s["conf_loss"] == "SOFTMAX" else 1 / (1 + np.exp(-scores))
    difference = p - _hits(scores, chosen.labels)
    to_conf[chosen.conf_image, chosen.conf_prior] = difference * s["conf_weight"] * above
    return [to_loc.reshape(inputs[0].shape), to_conf.reshape(inputs[1].shape), None, None]


def _gaps(loc: np.ndarray, chosen: Chosen) -> np.ndarray:
    """Return how far the locations are from their targets; Caffe's gradient knows nothing of the scale."""
    scaled = loc[chosen.image, chosen.prior, chosen.slot] / chosen.scale
    return np.asarray(scaled - chosen.targets / chosen.scale)


@operator("MultiBoxLoss", shapes=_loss_shapes, gradient=_gradient)
def multibox_loss(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe multibox_loss_layer.cpp: locations of priors that have a box, scores of these and of the worst.

    Inputs: locations (N, P * L * 4), scores (N, P * C) before any softmax, priors (1, 2, P * 4), truth
    (1, 1, G, 8). Attributes as in ``LOSS_DEFAULTS``.
    """
    s = {**LOSS_DEFAULTS, **attributes}
    loc, conf, priors, truth = _parts(inputs)
    chosen = choose(loc, conf, priors, truth, s)
    gap = np.abs(_gaps(loc, chosen))
    near = gap**2 / 2
    loc_loss = np.where((gap < 1) | (s["loc_loss"] == "L2"), near, gap - 0.5).sum()
    losses = score_losses(conf[chosen.conf_image, chosen.conf_prior], chosen.labels, s["conf_loss"])
    total = s["loc_weight"] * loc_loss + s["conf_weight"] * losses.sum()
    return [np.asarray(total / chosen.divisor, conf.dtype)]

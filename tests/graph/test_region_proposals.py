"""Regions of Faster R-CNN against its Python, written again box by box."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest

from netweave.graph import find_operator

RATIOS = (0.5, 1, 2)
SETTINGS = {
    "feature_stride": 4,
    "scales": (0.5, 1.0),
    "min_size": 5.0,
    "post_nms_top_n": 6,
    "nms_threshold": 0.6,
}


def anchors(scales):
    """generate_anchors.py."""
    found = []
    for ratio in RATIOS:
        width = round(sqrt(256 / ratio))
        height = round(width * ratio)
        for scale in scales:
            w, h = width * scale, height * scale
            found.append((7.5 - 0.5 * (w - 1), 7.5 - 0.5 * (h - 1), 7.5 + 0.5 * (w - 1), 7.5 + 0.5 * (h - 1)))
    return found


def candidates(scores, deltas, info, settings):
    """Boxes that are large enough, best first: proposal_layer.py, forward, steps 1 to 5."""
    own = anchors(settings["scales"])
    height, width, scale = info
    rows = []
    for y in range(scores.shape[2]):
        for x in range(scores.shape[3]):
            for number, corners in enumerate(own):
                shift = (x * settings["feature_stride"], y * settings["feature_stride"])
                left, top, right, bottom = (c + shift[i % 2] for i, c in enumerate(corners))
                w, h = right - left + 1, bottom - top + 1
                dx, dy, dw, dh = deltas[0, 4 * number : 4 * number + 4, y, x]
                cx, cy = dx * w + left + 0.5 * w, dy * h + top + 0.5 * h
                w, h = exp(dw) * w, exp(dh) * h
                box = (cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h)
                box = [max(min(c, (width, height)[i % 2] - 1), 0) for i, c in enumerate(box)]
                sides = (box[2] - box[0] + 1, box[3] - box[1] + 1)
                if min(sides) >= settings["min_size"] * scale:
                    rows.append((scores[0, len(own) + number, y, x], box))
    return sorted(rows, key=lambda row: -row[0])


def area(box):
    return (box[2] - box[0] + 1) * (box[3] - box[1] + 1)


def overlap(a, b):
    sides = [min(a[i + 2], b[i + 2]) - max(a[i], b[i]) + 1 for i in (0, 1)]
    common = max(sides[0], 0) * max(sides[1], 0)
    return common / (area(a) + area(b) - common)


@pytest.mark.parametrize(
    "changes",
    [{}, {"pre_nms_top_n": 9}, {"post_nms_top_n": 0}, {"scales": (8.0, 16.0, 32.0), "min_size": 16.0}],
)
def test_regions_are_those_of_the_python_layer(changes):
    settings = SETTINGS | changes
    count = 3 * len(settings["scales"])
    random = np.random.default_rng(3)
    scores, deltas = random.random((1, 2 * count, 5, 6)), 0.3 * random.standard_normal((1, 4 * count, 5, 6))
    info = (40.0, 52.0, 1.2)
    found, best = find_operator("RegionProposal").forward([scores, deltas, np.array([info])], settings)
    rows = candidates(scores, deltas, info, settings)[: settings.get("pre_nms_top_n", 6000)]
    kept = []
    for score, box in rows:
        if all(overlap(box, other) <= settings["nms_threshold"] for _, other in kept):
            kept.append((score, box))
    kept = kept[: settings["post_nms_top_n"] or None]
    assert 1 < len(kept) < len(rows)
    np.testing.assert_allclose(found, [[0, *box] for _, box in kept], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(best[:, 0], [score for score, _ in kept])


def test_heads_that_do_not_fit_the_anchors_are_refused():
    with pytest.raises(ValueError, match=r"10 probabilities and 24 locations .* expected 12 and 24"):
        find_operator("RegionProposal").shapes([(1, 10, 5, 6), (1, 24, 5, 6), (1, 3)], SETTINGS)

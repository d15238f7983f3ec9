"""Detectors' functions in torch alone, which written files copy, against the registry's forward."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from netweave.graph import find_operator
from tests.formats.onnx.test_functions import CASES

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch import detectors, regions  # noqa: E402 (torch may be missing)

FUNCTIONS = {
    "DetectionOutput": detectors.detection_output,
    "MultiBoxDetection": detectors.multibox_detection,
    "BoxNMS": detectors.box_nms,
    "Proposal": regions.proposal,
    "RegionProposal": regions.region_proposal,
    "ROIPooling": regions.roi_pooling,
    "PSROIPooling": regions.psroi_pooling,
}


@pytest.mark.parametrize(
    ("op_type", "arrays", "attributes"), [case for case in CASES if case.values[0] in FUNCTIONS]
)
def test_a_function_computes_what_the_forward_does(op_type, arrays, attributes):
    found = FUNCTIONS[op_type](*map(torch.from_numpy, arrays), **attributes)
    found = found if isinstance(found, tuple) else (found,)
    for tensor, expected in zip(found, find_operator(op_type).forward(arrays, attributes), strict=True):
        assert tuple(tensor.shape) == expected.shape
        digits = 3e-7 * max(1.0, abs(expected).max(initial=0))  # of pixels that were subtracted
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=2e-6, atol=max(2e-6, digits))


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_a_function_has_the_defaults_of_the_registry(op_type):
    parameters = inspect.signature(FUNCTIONS[op_type]).parameters.values()
    defaults = find_operator(op_type).defaults
    own = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert {name: own[name] for name in defaults} == defaults


def test_a_box_of_nan_stays_and_suppresses_all_behind_it():
    """As in Caffe, where ``std::max`` and ``std::min`` take the first argument unless the second wins."""
    boxes = np.array([[0, 0, 1, 1], [np.nan] * 4, [2, 2, 3, 3]], np.float32).reshape(1, 3, 1, 4)
    scores = np.array([[[0, 0.9], [0, 0.8], [0, 0.7]]], np.float32)
    found = detectors.detection_output(torch.from_numpy(boxes), torch.from_numpy(scores))
    np.testing.assert_array_equal(found[0, 0, :, 2], np.float32([0.9, 0.8]))


def test_blocks_of_candidates_are_judged_as_all_at_once():
    """More candidates than a block holds, of which survivors of one block suppress those of the next."""
    rng = np.random.default_rng(3)
    low = rng.random((700, 2)) * 3
    boxes = torch.from_numpy(np.concatenate([low, low + 1], axis=1))
    kept = detectors.suppress(boxes, torch.arange(700), 0.4).tolist()
    overlap = detectors.intersection_over_union(boxes[:, None], boxes, torch)
    one_by_one: list[int] = []
    for number in range(700):
        if all(overlap[number, other] <= 0.4 for other in one_by_one):
            one_by_one.append(number)
    assert kept == one_by_one
    assert max(kept) >= 256
    assert detectors.suppress(boxes, torch.arange(700), 0.4, most=5).tolist() == one_by_one[:5]

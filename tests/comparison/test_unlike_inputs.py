"""Inputs that one net alone has, and numbers that are not finite."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict, compare
from netweave.comparison.execution.input_candidates import input_candidates
from netweave.comparison.metric import Signals, comparable
from tests.formats.onnx.models import load, model, node


def net(tmp_path, name, *, unread, weights=None):
    rng = np.random.default_rng(1)
    stored = (
        {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)} if weights is None else {"w": weights}
    )
    inputs = {"x": ["N", 3, 11, 9]} | ({"flag": ["N", 1]} if unread else {})
    path = tmp_path / f"{name}.onnx"
    nodes = [node("Conv", "x w", "c", name="conv"), node("Relu", "c", "y", name="relu")]
    path.write_bytes(model(nodes, inputs, ["y"], stored).SerializeToString())
    return netweave.load(path)


@pytest.mark.parametrize("unread", [(True, False), (False, True), (True, True)])
def test_an_input_that_nothing_reads_makes_no_pair_undecidable(tmp_path, unread):
    a, b = (net(tmp_path, name, unread=has) for name, has in zip("ab", unread, strict=True))
    assert compare(a, b).verdict is Verdict.IDENTICAL
    probe = {"x": np.ones((2, 3, 11, 9), np.float32), "flag": np.zeros((2, 1), np.float32)}
    assert compare(a, b, probe={name: probe[name] for name in probe if name == "x" or unread[0]}).equal


def test_numbers_that_are_not_finite_warn_nobody(tmp_path):
    right = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    right[0, 0, 0, 0] = np.inf
    ported = right.copy()
    ported[1] *= np.float32(1e37)
    a, b = (net(tmp_path, name, unread=False, weights=w) for name, w in (("a", right), ("b", ported)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = compare(a, b)
    assert not comparison.equal


@pytest.mark.parametrize("order", [1, -1])
def test_an_input_that_is_no_image_is_not_tried_with_its_height_and_width_swapped(tmp_path, order):
    """No weights of the two say how an image becomes a sequence, so that it is tried as it is alone."""
    nets = []
    for shape, op_type, stored in (
        (["N", 3, 9, 9], "Conv", (4, 3, 3, 3)),
        (["N", 20, 6], "MatMul", (6, 4)),
    ):
        made = model([node(op_type, "x w", "y")], {"x": shape}, ["y"], {"w": np.ones(stored, np.float32)})
        nets.append(Signals.of(comparable(load(made, tmp_path))))
    (candidate,) = input_candidates(*nets[::order], [("x", "x")], [])
    assert [(mapping.axes, mapping.channels) for mapping in candidate.mappings] == [(None, None)]

"""Which tensors depend on the input."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.comparison.execution.input_domains import Variation
from netweave.comparison.metric import Signals
from netweave.graph import GraphBuilder


def signals() -> Signals:
    builder = GraphBuilder("net", format="onnx", files=("a.net",))
    x = builder.input("x", (1, 4))
    return Signals.of(builder.finish([builder.add("Softmax", [x], {"axis": 1})]))


NOISE = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[:3]


@pytest.mark.parametrize(
    ("name", "tensor", "flaw"),
    [
        ("x", NOISE, ""),
        ("x", np.zeros((3, 4), np.float32), "constant"),
        ("x", np.repeat(NOISE[:1], 3, axis=0), "constant"),  # the bias alone
        ("x", 100 + 1e-4 * NOISE, "constant"),
        ("x", np.full((3, 4), np.nan, np.float32), "not finite"),
        ("x", np.concatenate([NOISE, np.full((1, 4), np.inf, np.float32)]), ""),
        ("x", np.zeros((3, 0), np.float32), "empty"),
        ("x", np.zeros((3, 4), np.int64), "constant"),
        ("x", np.ones((3, 4), bool), "constant"),
        ("x", np.array([[0, 1], [0, 1]]), ""),  # places of one sample may be those of another
        ("x", ONE_HOT, ""),  # no bound of the operator that makes it
        ("softmax", ONE_HOT, "saturated"),
        ("softmax", np.abs(NOISE) / 4, ""),
        ("x", NOISE[:1], ""),  # one sample alone: its elements differ
        ("x", np.ones((1, 4), np.float32), "constant"),
    ],
)
def test_flaws(name: str, tensor: np.ndarray, flaw: str) -> None:
    net = signals()
    name = net.outputs[0] if name == "softmax" else name
    assert Variation(net, [{name: tensor}]).flaw(name) == flaw


def test_a_second_run_shows_what_one_sample_cannot() -> None:
    """A softmax of weights of zeros has elements that differ if its biases do."""
    once, twice = [{"x": NOISE[:1]}], [{"x": NOISE[:1]}, {"x": NOISE[:1].copy()}]
    assert Variation(signals(), once).flaw("x") == ""
    assert Variation(signals(), twice).flaw("x") == "constant"
    assert Variation(signals(), [*once, {"x": NOISE[1:2]}]).flaw("x") == ""

"""A net that does all that the other does, and makes more outputs besides."""

from __future__ import annotations

import numpy as np

from netweave.comparison import Verdict, compare
from netweave.graph import GraphBuilder, Parameter


def net(*more, changed=0.0):
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("data", (1, 3, 8, 8))
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    weights[1, 2, 0, 0] += changed
    weight = builder.parameter(Parameter("w", weights.shape), weights)
    y = builder.add("Conv", [x, weight], outputs="y")
    return builder.finish([y, *(builder.add(op, [y], outputs=op.lower()) for op in more)])


def test_outputs_that_only_b_has_are_said_to_be_more():
    found = compare(net(), net("Sigmoid", "Tanh"))
    assert found.verdict is Verdict.DIFFERENT
    assert found.sentence == (
        "different only because B has more outputs: A's output is identical; "
        "B also returns the outputs 'sigmoid', 'tanh'"
    )


def test_a_difference_elsewhere_is_still_told():
    found = compare(net(), net("Sigmoid", changed=2.0))
    assert found.verdict is Verdict.DIFFERENT
    assert "only because B has more" not in found.sentence


def test_outputs_that_only_a_has_are_missing():
    found = compare(net("Sigmoid"), net())
    assert found.verdict is Verdict.DIFFERENT
    assert "only because B has more" not in found.sentence

"""The generated pair: as many nodes as asked for, values of a steady scale, and the same function."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.scale.generate import SIZE, caffe_model, draw_net, removable, tensorflow_model
from tests.formats.onnx.models import normal, run


@pytest.mark.slow
def test_the_pair_of_the_benchmark_has_its_nodes():
    net = draw_net(360)
    assert len(caffe_model(net).graph.node) == 5_786
    assert len(tensorflow_model(net, removed=removable(net, 5)).graph.node) == 7_850


def test_both_cuts_compute_the_same():
    net = draw_net(12)
    x = normal(1, 3, SIZE, SIZE)
    (a,) = run(caffe_model(net, removed=[1, 7]), {"data": x})
    (b,) = run(tensorflow_model(net, removed=[1, 7]), {"input": x.transpose(0, 2, 3, 1)})
    np.testing.assert_allclose(a, b, atol=1e-6)
    (whole,) = run(caffe_model(net), {"data": x})
    assert np.abs(whole - a).max() > 1e-3


def test_values_keep_their_scale():
    made = caffe_model(draw_net(60))
    made.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in made.graph.node)
    for name, values in zip(
        [value.name for value in made.graph.output],
        run(made, {"data": normal(1, 3, SIZE, SIZE, seed=5)}),
        strict=True,
    ):
        assert 1e-2 < np.sqrt(np.square(values).mean()) < 10, name

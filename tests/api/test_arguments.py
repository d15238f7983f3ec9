"""Calls with arguments of wrong types: one error of ours each, that says which and what was expected."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import UsageError
from netweave.graph import GraphBuilder


@pytest.fixture
def net():
    builder = GraphBuilder("net", format="onnx")
    return builder.finish([builder.add("Relu", [builder.input("data", (1, 3))], outputs="y")])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"data": 3}, r"input_shapes\['data'\] is 3, expected sizes such as \(1, 3, 224, 224\)"),
        ({"data": "1x3"}, r"input_shapes\['data'\] is '1x3'"),
        ({"data": (1, 0)}, r"input_shapes\['data'\] is \(1, 0\)"),
        ({"data": (1, 2.5)}, r"input_shapes\['data'\] is \(1, 2\.5\)"),
        ({3: (1, 2)}, r"input_shapes\[3\] is"),
        ((1, 3), "input_shapes is .*, expected sizes by name"),
    ],
)
def test_sizes(sizes, message):
    with pytest.raises(UsageError, match=message):
        netweave.load("net.prototxt", input_shapes=sizes)


def test_phases_and_stages():
    with pytest.raises(UsageError, match="phase is 'foo', expected TEST or TRAIN"):
        netweave.load("net.prototxt", phase="foo")
    with pytest.raises(UsageError, match=r"stages is the string 'a', expected a list of names: \['a'\]"):
        netweave.load("net.prototxt", stages="a")


def test_inputs_and_taps(net):
    x = np.ones((1, 3), np.float32)
    with pytest.raises(
        UsageError, match=r"inputs is of type ndarray, expected arrays by name: \{'data': array\}"
    ):
        netweave.run(net, x)
    with pytest.raises(UsageError, match=r"taps is the string 'y', expected a list of names: \['y'\]"):
        netweave.run(net, {"data": x}, taps="y")
    assert netweave.run(net, {"data": x}, taps=["y"])["y"].shape == (1, 3)


@pytest.mark.parametrize("tolerance", ["a", -1, 0, float("nan"), float("inf"), True, None])
def test_tolerances(net, tolerance):
    with pytest.raises(UsageError, match=r"tolerance is .*, expected a number > 0, such as 0\.001"):
        netweave.compare(net, net, tolerance=tolerance)


def test_probes(net):
    with pytest.raises(UsageError, match="probe is of type list, expected arrays by name"):
        netweave.compare(net, net, probe=[1])


def test_files(net, tmp_path):
    with pytest.raises(UsageError, match="path is of type int, expected the name of a file"):
        netweave.save(net, 3)
    with pytest.raises(UsageError, match="the net is of type str, expected a Graph"):
        netweave.save("net.onnx", tmp_path / "net.onnx")

"""Calls with arguments of wrong types: one error of ours each, that says which and what was expected."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import netweave
from netweave.errors import UsageError
from netweave.graph import GraphBuilder

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="could not import 'torch'")


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


WRONG = [3, None, ["net.onnx"], object()]


@pytest.mark.parametrize("wrong", WRONG, ids=["number", "none", "list", "object"])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net, x: netweave.load(x), "net is .*, expected the name of a file, a Graph, or a PyTorch"),
        (lambda net, x: netweave.compare(x, net), "a is .*, expected the name of a file, a Graph"),
        (lambda net, x: netweave.compare(net, x), "b is .*, expected the name of a file, a Graph"),
        (lambda net, x: netweave.bisect(net, x), "b is .*, expected the name of a file, a Graph"),
        (lambda net, x: netweave.compare_all([net, x]), r"nets\[1\] is .*, expected the name of a file"),
        (lambda net, x: netweave.run(x, {}), "net is .*, expected the name of a file, a Graph"),
        (lambda net, x: netweave.save(x, "net.onnx"), "the net is of type .*, expected a Graph"),
        (lambda net, x: netweave.save(net, x), "path is of type .*, expected the name of a file"),
        (lambda net, x: netweave.load_job(x), "solver is of type .*, expected the name of a file"),
        pytest.param(
            lambda net, x: netweave.train(x),
            "solver is of type .*, expected the name of a file",
            marks=needs_torch,
        ),
        (lambda net, x: netweave.find_boxes(x, {}), "the net is of type .*, expected a Graph"),
        (lambda net, x: netweave.evaluate_boxes(x, "a"), "labels is of type .*, expected the name of a file"),
        (lambda net, x: netweave.pack("a", x), "target is of type .*, expected the name of a file"),
        (lambda net, x: netweave.compare(net, net, memory=x or []), "memory is .*, expected a size such as"),
        (lambda net, x: netweave.compare(net, net, first=x or 0), "first is .*, expected a name such as"),
        (lambda net, x: netweave.save(net, "n.py", to=x or 3), "to is .*, expected a name such as 'keras'"),
    ],
)
def test_what_is_of_a_wrong_type_is_named(net, call, message, wrong):
    if wrong == 3 and "memory" in message:
        pytest.skip("a number of bytes")
    with pytest.raises(UsageError, match=message):
        call(net, wrong)


def test_several_nets_are_a_list(net):
    with pytest.raises(UsageError, match=r"nets is 3, expected a list of nets: \[a, b\]"):
        netweave.compare_all(3)
    with pytest.raises(UsageError, match="nets has 1 entries, expected at least 2"):
        netweave.compare_all([net])
    with pytest.raises(UsageError, match="source is of type int, expected the name of a file or folder"):
        netweave.pack(3, "out.npz")
    with pytest.raises(UsageError, match="is a Graph, which has been read already"):
        netweave.load(net)


def test_a_comparison_has_no_truth_value(net):
    found = netweave.compare(net, net)
    with pytest.raises(UsageError, match=r"neither true nor false: write 'comparison\.equal'"):
        assert found
    assert found.equal

"""Nets that are read to be compared: whose inputs get which sizes, and how often a file is read for it."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import netweave
from netweave.api import reading
from netweave.errors import SourceError, UsageError
from netweave.training.watchers import TrainOptions
from tests.cli.test_reading import CAFFE, MXNET, SHAPE

SIZES = (1, 3, 12, 12)


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """Two nets of Caffe, with an input of another name, and one of MXNet, which says no size."""
    monkeypatch.chdir(tmp_path)
    for name in ("data", "image"):
        (tmp_path / f"{name}.prototxt").write_text(CAFFE.format(name=name, shape=SHAPE.format(size=9)))
    (tmp_path / "img-symbol.json").write_text(json.dumps(MXNET))
    return tmp_path


@pytest.fixture
def loads(monkeypatch):
    """Counts how often each file is read."""
    counts = Counter()
    read = reading.read

    def counted(source):
        counts[source.net.name] += 1
        return read(source)

    monkeypatch.setattr(reading, "read", counted)
    return counts


@pytest.mark.parametrize(
    ("files", "shapes", "expected", "before"),
    [
        (["data.prototxt", "image.prototxt"], [], [1, 1], 2),
        (["data.prototxt", "image.prototxt"], ["image"], [2, 1], 4),
        (["data.prototxt", "image.prototxt"], ["data", "image"], [2, 2], 8),
        (["data.prototxt", "img-symbol.json"], [], [1, 2], 3),
        (["data.prototxt", "img-symbol.json"], ["data"], [1, 3], 6),
        (["data.prototxt", "image.prototxt", "img-symbol.json"], ["data", "image"], [2, 2, 3], 14),
    ],
)
def test_a_file_is_read_again_only_for_sizes_of_another_net_or_none_of_its_own(
    nets, loads, files, shapes, expected, before
):
    """``before`` is what the command line read when it found this out by itself, one name at a time."""
    graphs = netweave.load_all(files, input_shapes=dict.fromkeys(shapes, SIZES))
    assert [loads[file] for file in files] == expected
    assert sum(expected) <= before
    side = SIZES[2] if shapes else 9
    if len(shapes) != 1:
        assert {graph.declared[graph.inputs[0].name][2] for graph in graphs} == {side}


def test_comparing_and_bisecting_read_as_the_command_line_does(nets, loads):
    found = netweave.compare("data.prototxt", "img-symbol.json", input_shapes={"data": SIZES})
    assert found.same_structure
    assert found.b.notes == (
        "img-symbol.json: the input 'img' takes its sizes from the first net: 1x3x12x12",
    )
    assert loads == {"data.prototxt": 1, "img-symbol.json": 3}
    with pytest.raises(UsageError, match="has no weights"):
        netweave.bisect("data.prototxt", "img-symbol.json", input_shapes={"data": SIZES})


def test_every_net_of_a_matrix_is_read_once(nets, loads):
    matrix = netweave.compare_all(["data.prototxt", "image.prototxt", "data.prototxt"])
    assert loads == {"data.prototxt": 2, "image.prototxt": 1}
    assert matrix.names == ("data.prototxt", "image.prototxt", "data.prototxt")
    assert len(matrix.pairs) == 3
    graphs = [netweave.load("data.prototxt"), netweave.load("image.prototxt")]
    loads.clear()
    assert netweave.compare_all(graphs).exit_status == netweave.compare(*graphs).exit_status
    assert not loads


def test_a_probe_may_be_a_file_whose_single_array_is_that_of_the_first_input(nets):
    np.save(nets / "probe.npy", np.zeros((2, 3, 9, 9), np.float32))
    found = netweave.compare("data.prototxt", "image.prototxt", probe=nets / "probe.npy")
    assert found.probes == ("data 2x3x9x9",)


def test_sizes_that_no_net_takes_are_refused(nets):
    with pytest.raises(UsageError, match=r"data.prototxt in phase TEST: no input named 'x'") as caught:
        netweave.load_all(["data.prototxt", "image.prototxt"], input_shapes={"x": SIZES, "data": SIZES})
    assert caught.value.unknown_inputs == ("x",)
    graph = netweave.load("data.prototxt")
    with pytest.raises(UsageError, match="these have been read already"):
        netweave.load_all([graph, graph], input_shapes={"data": SIZES})


def test_either_net_may_say_the_sizes_of_the_other(nets, loads):
    graphs = netweave.load_all(["img-symbol.json", "data.prototxt"])
    assert {graph.declared[graph.inputs[0].name][2] for graph in graphs} == {9}
    assert graphs[0].notes == (
        "img-symbol.json: the input 'img' takes its sizes from data.prototxt: 1x3x9x9",
    )
    assert loads == {"img-symbol.json": 2, "data.prototxt": 1}


def test_sizes_that_no_net_says_are_asked_for(nets):
    with pytest.raises(SourceError, match="the sizes of the input 'img' are unknown"):
        netweave.load_all(["img-symbol.json", "img-symbol.json"])


def test_a_name_that_no_net_has_fails_before_any_net_is_read_again(nets, loads):
    with pytest.raises(UsageError) as caught:
        netweave.load_all(["data.prototxt", "image.prototxt"], input_shapes={"x": SIZES})
    assert caught.value.unknown_inputs == ("x",)
    for words in ("data.prototxt", "the inputs are 'data'", "image.prototxt", "the inputs are 'image'"):
        assert words in str(caught.value)
    assert loads == {"data.prototxt": 1, "image.prototxt": 1}


def test_a_name_that_no_net_has_is_told_where_another_net_lacks_its_sizes(nets):
    with pytest.raises(UsageError, match=r"data.prototxt.*no input named 'x'.*img-symbol.json.*'x'"):
        netweave.load_all(["data.prototxt", "img-symbol.json"], input_shapes={"x": SIZES})


MODEL = """
import torch
from torch import nn

class Port(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4 * HEIGHT * WIDTH, 2)
    def forward(self, x):
        TRIED.append(tuple(x.shape))
        return self.fc(torch.relu(self.conv(x)).flatten(1))
TRIED = []
"""


@pytest.mark.slow
def test_the_other_net_s_sizes_are_tried_before_the_usual_ones(tmp_path):
    """A port without sizes of its own, whose size is none of the usual ones."""
    pytest.importorskip("torch")
    space = {"HEIGHT": 13 - 2, "WIDTH": 21 - 2}
    exec(MODEL, space)
    first = tmp_path / "first.prototxt"
    first.write_text(
        'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 dim: 3 dim: 13 dim: 21 } } }'
        ' layer { name: "r" type: "ReLU" bottom: "d" top: "r" }'
    )
    netweave.load_all([first, space["Port"]()])
    assert space["TRIED"][0] == (2, 3, 13, 21)
    space["TRIED"].clear()
    netweave.load_all([space["Port"](), first], input_shapes={"d": (1, 3, 13, 21)})
    assert space["TRIED"][0] == (2, 3, 13, 21)


@pytest.mark.parametrize("shape", [(1, 3, 13, 21), (1, 13, 21, 3)])
def test_likely_sizes_may_have_their_channels_last(shape):
    pytest.importorskip("torch")
    space = {"HEIGHT": 13 - 2, "WIDTH": 21 - 2}
    exec(MODEL, space)
    netweave.load(space["Port"](), likely_shapes=[shape])
    assert space["TRIED"][0] == (2, 3, 13, 21)


def test_a_net_is_run_at_the_sizes_of_the_arrays(nets, loads):
    given = np.ones((2, 3, 11, 13), np.float32)
    outputs = netweave.run("img-symbol.json", {"img": given})
    assert [x.shape for x in outputs.values()] == [(2, 4, 9, 11)]
    assert loads == {"img-symbol.json": 2}
    with pytest.raises(SourceError, match="are unknown"):
        netweave.run("img-symbol.json", {"other": given})


def test_an_option_that_there_is_not_is_named_with_those_that_there_are():
    with pytest.raises(UsageError, match=r"compare has no option 'tolerence'; expected .*tolerance.*trust"):
        netweave.compare("a.onnx", "b.onnx", tolerence=0.1)
    with pytest.raises(UsageError, match=r"train has no option 'sed'; expected .*seed"):
        TrainOptions.of(None, {"sed": 1})

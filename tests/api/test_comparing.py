"""Nets that are read to be compared: whose inputs get which sizes, and how often a file is read for it."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import netweave
from netweave.api import nets as api_nets
from netweave.errors import SourceError, UsageError
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
    read = api_nets.read

    def counted(source):
        counts[source.net.name] += 1
        return read(source)

    monkeypatch.setattr(api_nets, "read", counted)
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


def test_the_first_net_must_have_sizes_of_its_own(nets):
    with pytest.raises(SourceError, match="the sizes of the input 'img' are unknown"):
        netweave.load_all(["img-symbol.json", "data.prototxt"])


def test_a_net_is_run_at_the_sizes_of_the_arrays(nets, loads):
    given = np.ones((2, 3, 11, 13), np.float32)
    outputs = netweave.run("img-symbol.json", {"img": given})
    assert [x.shape for x in outputs.values()] == [(2, 4, 9, 11)]
    assert loads == {"img-symbol.json": 2}
    with pytest.raises(SourceError, match="are unknown"):
        netweave.run("img-symbol.json", {"other": given})

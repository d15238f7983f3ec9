"""The matrix of classic nets: what it counts as right, keeps, and writes down."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.matrix import ours, pairs, run, theirs
from benchmarks.matrix.cells import Cell, Kept, Refused, attempt
from benchmarks.matrix.nets import COLUMNS, NETS, OTHERS
from netweave.errors import UsageError
from tests.oracles import golden
from tools.docs import matrix

LEAST = {"tensorflow": 12, "mxnet": 12, "chainer": 8, "caffe": 10}
HEAD = {"net": "lenet", "format": "mxnet", "kind": "theirs", "origin": "MXNet: somewhere"}
RESULT = json.loads(matrix.RESULT.read_text())
RECORDS = {path.stem: json.loads(path.read_text()) for path in theirs.GOLDEN.glob("*.json")}


def test_what_goes_wrong_is_the_outcome_of_a_cell():
    def refused():
        raise UsageError("deploy.prototxt: no weights")

    def not_written():
        raise Refused("cannot be written: LSTM")

    def crashed():
        return {}["missing"]

    assert attempt(HEAD, lambda: {"ok": True, "error": 1e-6}).ok
    assert (attempt(HEAD, refused).ok, attempt(HEAD, refused).said) == (False, "deploy.prototxt: no weights")
    assert attempt(HEAD, not_written).facts == {"refused": True}
    assert attempt(HEAD, not_written).said == "cannot be written: LSTM"
    assert attempt(HEAD, crashed).said == "KeyError: 'missing'"


def test_an_outcome_is_kept_until_a_file_changes(tmp_path):
    net, done = tmp_path / "net", []

    def work():
        done.append(net.read_text())
        return {"ok": True}

    for text, times in (("one", 1), ("one", 1), ("two", 2), ("one", 2)):
        net.write_text(text)
        assert Kept(tmp_path / "outcomes")(HEAD, [net], work).ok
        assert len(done) == times


@pytest.mark.parametrize("equal", [False, True])
def test_known_other_nets_are_right_if_netweave_tells_them_apart(equal):
    cell = run.as_known(Cell(**HEAD, ok=equal, said="what Netweave said"), "other widths")
    assert cell.ok is not equal
    assert (cell.said, cell.facts["netweave"]) == ("other widths", "what Netweave said")


def test_weights_come_from_the_first_net_that_is_no_other():
    formats = ["caffe", "keras", "mxnet"]
    assert [pairs.partner("lenet", format_, formats) for format_ in formats] == ["mxnet", "mxnet", None]
    assert pairs.partner("lstm", "mxnet", ["mxnet", "pytorch", "keras"]) == "pytorch"


def test_nets_that_are_another_in_the_same_way_are_held_against_each_other():
    formats = ["mxnet", "pytorch", "onnx", "keras", "tensorflow"]
    partners = {format_: pairs.partner("squeezenet", format_, formats) for format_ in formats}
    assert partners == {
        "mxnet": "pytorch",
        "pytorch": None,
        "onnx": "pytorch",
        "keras": "pytorch",
        "tensorflow": "keras",
    }
    assert pairs.difference("squeezenet", "keras", "tensorflow") is None
    assert pairs.difference("squeezenet", "pytorch", "keras") == OTHERS["squeezenet", "keras"]


def test_every_two_nets_are_known_to_be_the_same_or_not():
    for net, format_ in OTHERS:
        formats = [key for key in COLUMNS if net in RECORDS.get(key, {})]
        links = {key: pairs.partner(net, key, formats) for key in formats}
        (start,) = (key for key, link in links.items() if link is None)
        for key in {format_, *formats} & set(formats):
            way = [key]
            while links[way[-1]] is not None:
                way.append(links[way[-1]])
            assert way[-1] == start
            assert sum(pairs.difference(net, b, a) is not None for a, b in pairwise(way)) <= 1


def test_a_net_is_written_from_another_format_than_its_own():
    made = {("lenet", "mxnet"): "MXNet's", ("lenet", "caffe"): "Caffe's"}
    found = [
        ours.source("lenet", format_, lambda *key: made.get(key)) for format_ in ("mxnet", "caffe", "onnx")
    ]
    assert found == ["Caffe's", "MXNet's", "MXNet's"]
    assert ours.source("lenet", "mxnet", lambda net, format_: None) is None


def test_outputs_are_held_against_the_framework_s_by_name_or_else_in_order(tmp_path):
    x, y = np.arange(6.0).reshape(2, 3), np.arange(6.0, 12.0).reshape(3, 2)
    described = [("x", golden.describe(x, 4)), ("y", golden.describe(y, 4))]
    their = theirs.Their("lenet", "mxnet", tmp_path, {"outputs": described})
    assert their.difference({"y": y, "x": x}) < golden.TOLERANCE
    assert their.difference({"p": x, "q": y}) < golden.TOLERANCE
    assert their.difference({"p": x, "q": y + 0.1}) > golden.TOLERANCE
    assert their.difference({"q": y, "p": x}) == their.difference({"p": x}) == float("inf")


def test_every_record_of_a_framework_has_its_cell():
    cells = {(cell["net"], cell["format"]) for cell in RESULT["cells"] if cell["kind"] == "theirs"}
    made = {(net, format_) for format_, nets in RECORDS.items() for net in nets}
    assert made <= cells
    assert {net for net, _ in OTHERS} <= set(NETS)
    assert set(RECORDS) <= set(COLUMNS)


@pytest.mark.parametrize(("format_", "least"), LEAST.items())
def test_so_many_nets_of_theirs_are_right(format_, least):
    theirs_of = [c for c in RESULT["cells"] if (c["kind"], c["format"]) == ("theirs", format_)]
    right = [cell for cell in theirs_of if cell["ok"]]
    assert len(right) >= least
    assert all(cell["error"] < golden.TOLERANCE for cell in right)


def test_the_page_names_every_cell_that_failed():
    page = matrix.page()
    for cell in RESULT["cells"]:
        if not cell["ok"]:
            assert cell["said"] in page

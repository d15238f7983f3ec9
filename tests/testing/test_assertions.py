"""``assert_same_net`` and its pytest plugin: what a failing test of a port shows, and what reports hold."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from onnx import helper

from netweave import api
from netweave.comparison import Verdict
from netweave.errors import ReadError
from netweave.testing import DifferentNetsError, assert_same_net

ROOT = Path(__file__).parent.parent.parent
PADDING = ROOT / "examples" / "padding"


def save_relu(file, slope=0.25):
    node = helper.make_node("LeakyRelu", ["x"], ["y"], name="act", alpha=slope)
    ends = [helper.make_tensor_value_info(each, 1, [1, 4, 5]) for each in ("x", "y")]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), file)
    return str(file)


@pytest.fixture
def ports(tmp_path, monkeypatch):
    for file in ("leaves.prototxt", "leaves-symbol.json", "make_weights.py"):
        shutil.copy(PADDING / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "make_weights.py"], check=True, env=environment)
    return environment


def test_a_failure_names_place_line_cause_tested_fix_and_command(ports):
    with pytest.raises(DifferentNetsError) as raised:
        assert_same_net("leaves.prototxt", "leaves-symbol.json", input_shapes={"data": (1, 3, 32, 32)})
    lines = str(raised.value).splitlines()
    assert len(lines) <= 12
    assert re.fullmatch(r"different: the outputs differ by up to \S+ times their rms", lines[0])
    assert lines[1] == "first wrong place: leaves-symbol.json:15: down1 (A: leaves.prototxt:11: pool1)"
    assert lines[2].startswith("source: ")
    assert lines[2].removeprefix("source: ") in Path("leaves-symbol.json").read_text()
    assert lines[3].startswith("cause: padding is 0 in A and 1 in B")
    fix = "fix: pad=(0, 0) and pooling_convention=full"
    assert lines[4] == f"{fix} (tested: the outputs of the layer are then identical)"
    assert lines[5].startswith("not exercised: ")
    command = "netweave compare leaves.prototxt leaves-symbol.json --input-shape data=1x3x32x32"
    assert lines[-1] == f"repeat: {command}"
    assert raised.value.comparison.exit_status == 1


def test_equal_nets_pass_and_the_comparison_comes_back(tmp_path):
    file = save_relu(tmp_path / "a.onnx")
    assert assert_same_net(file, file).equal


def test_what_cannot_be_shown_fails(tmp_path, monkeypatch):
    file = save_relu(tmp_path / "a.onnx")
    decided = api.compare(file, file)
    undecided = replace(decided, verdict=Verdict.UNDECIDED, sentence="not decidable: the outputs saturate")
    monkeypatch.setattr(api, "compare", lambda *_, **__: undecided)
    with pytest.raises(
        DifferentNetsError, match=r"^not decidable: the outputs saturate\n(.*\n)*repeat: .* --strict$"
    ):
        assert_same_net(file, file, strict=True)


def test_structure_alone_passes_only_if_the_test_says_so(tmp_path):
    net = str(shutil.copy(PADDING / "leaves.prototxt", tmp_path))  # without the weights that a demo makes
    with pytest.raises(DifferentNetsError, match="same structure, weights not compared"):
        assert_same_net(net, net)
    assert not assert_same_net(net, net, require_weights=False).equal


def test_a_net_that_cannot_be_read_is_said_without_our_frames(tmp_path):
    with pytest.raises(ReadError, match="no such file") as raised:
        assert_same_net(str(tmp_path / "none.onnx"), str(tmp_path / "none.onnx"))
    assert [entry.name for entry in raised.traceback][1:] == ["assert_same_net"]


TESTS = """
import netweave
from netweave.testing import assert_same_net

def test_port():
    assert_same_net("leaves.prototxt", "leaves-symbol.json")

def test_in_memory():
    assert_same_net(netweave.load("leaves.prototxt"), netweave.load("leaves-symbol.json"))

def test_same():
    assert_same_net("leaves.prototxt", "leaves.prototxt")

def test_other():
    assert 1 == 2
"""


@pytest.mark.slow
def test_the_plugin_shows_the_text_alone_and_reports_have_properties(ports, tmp_path):
    (tmp_path / "test_port.py").write_text(TESTS)
    is_installed = any(point.value == "netweave.testing.plugin" for point in entry_points(group="pytest11"))
    plugin = [] if is_installed else ["-p", "netweave.testing.plugin"]
    flags = [*plugin, "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    command = [sys.executable, "-m", "pytest", *flags, "--junitxml", "report.xml", "test_port.py"]
    shown = subprocess.run(command, capture_output=True, text=True, env=ports, check=False).stdout
    assert "2 failed" not in shown
    assert "3 failed, 1 passed" in shown
    port = shown.partition("test_port ___")[2].partition("test_in_memory ___")[0].splitlines()[1:-1]
    assert port[0] == "test_port.py:6: assert_same_net"
    assert port[1].startswith("different: ")
    assert port[-1] == "repeat: netweave compare leaves.prototxt leaves-symbol.json"
    assert len(port) <= 13
    assert "repeat: pytest test_port.py::test_in_memory" in shown
    assert "assertions.py" not in shown
    assert "E       assert 1 == 2" in shown
    cases = {case.get("name"): case for case in ElementTree.parse("report.xml").iter("testcase")}
    properties = {p.get("name"): p.get("value") for p in cases["test_port"].iter("property")}
    assert properties["netweave.verdict"] == "different"
    assert properties["netweave.place"] == "leaves-symbol.json:15"
    assert properties["netweave.fix"] == "pad=(0, 0) and pooling_convention=full"
    assert cases["test_port"].find("failure").get("message").startswith("different: ")
    equal = {p.get("name"): p.get("value") for p in cases["test_same"].iter("property")}
    assert equal["netweave.verdict"] == "identical"
    assert not list(cases["test_other"].iter("property"))

"""The trained face-detection nets, ported from Caffe to MXNet by other people."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import netweave
from netweave.comparison import Status, Verdict, compare
from netweave.graph import with_arrays
from tests.comparison.damaged_inputs import DAMAGES

PAIRS = ("det1", "det2")


@pytest.fixture
def copies(corpus, tmp_path):
    for name in PAIRS:
        for suffix in (".prototxt", ".caffemodel", "-symbol.json", "-0001.params"):
            shutil.copy(corpus / "mtcnn" / f"{name}{suffix}", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", PAIRS)
def test_the_relation_is_found_and_proven(corpus, name):
    a = netweave.load(corpus / "mtcnn" / f"{name}.prototxt")
    b = netweave.load(corpus / "mtcnn" / f"{name}-symbol.json")
    found = compare(a, b)
    assert found.verdict is Verdict.EQUAL
    assert found.exit_status == 0
    assert found.error < 1e-5
    assert "input 'data' with height and width swapped, channels reversed" in found.sentence
    assert not found.findings


@pytest.mark.parametrize(("height", "width"), [(12, 12), (40, 23), (17, 60)])
def test_the_relation_holds_when_both_are_run_apart(corpus, height, width):
    """The claim of the comparison, checked without it: B on the mapped input gives the mapped output."""
    folder = corpus / "mtcnn"
    x = np.random.default_rng(3).standard_normal((2, 3, height, width)).astype(np.float32)
    a = netweave.load(folder / "det1.prototxt", input_shapes={"data": (1, 3, height, width)})
    b = netweave.load(folder / "det1-symbol.json", input_shapes={"data": (1, 3, width, height)})
    made_a = netweave.run(a, {"data": x})
    made_b = netweave.run(b, {"data": x[:, ::-1].transpose(0, 1, 3, 2).copy()})
    for name_a, name_b in (("prob1", "prob1_output"), ("conv4-2", "conv4_2_output")):
        wanted = made_a[name_a].transpose(0, 1, 3, 2)
        rms = np.sqrt(np.mean(wanted**2))
        assert np.abs(wanted - made_b[name_b]).max() < 1e-5 * rms


def _change_stored(folder, name, key, index, factor):
    """Change one number of a stored array, in the bytes of the file."""
    graph = netweave.load(folder / f"{name}-symbol.json")
    array = graph.model.graph.initializers[key].const_value.numpy()
    file = folder / f"{name}-0001.params"
    content = file.read_bytes()
    start = content.index(array.tobytes())
    place = start + 4 * index
    number = np.frombuffer(content[place : place + 4], "<f4") * np.float32(factor)
    file.write_bytes(content[:place] + number.astype("<f4").tobytes() + content[place + 4 :])


def _culprits(folder, name, **changed):
    a = netweave.load(folder / f"{name}.prototxt")
    b = with_arrays(netweave.load(folder / f"{name}-symbol.json"), changed)
    found = compare(a, b)
    assert "height and width swapped, channels reversed" in found.inputs[0].text
    assert found.exit_status == 1, found.sentence
    return [g.finding for g in found.groups if g.status in {Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B}]


@pytest.mark.parametrize(
    ("name", "layer", "key", "index", "factor"),
    [
        ("det1", "conv2", "conv2_weight", 300, -8.0),
        ("det2", "conv1", "conv1_weight", 77, -8.0),
        ("det2", "conv4", "conv4_weight", 12345, 100.0),
        ("det1", "prelu3", "prelu3_gamma", 7, -9.0),
    ],
)
def test_one_changed_number_is_found(copies, name, layer, key, index, factor):
    _change_stored(copies, name, key, index, factor)
    (culprit,) = _culprits(copies, name)
    assert culprit.layer_b == layer
    assert culprit.mismatch in {"weights", "slope"}
    assert "1 of " in culprit.cause


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", PAIRS)
def test_a_damaged_first_convolution_is_not_taken_for_another_input(corpus, name, damage):
    """The port sees BGR with height and width swapped, whatever its first filters say."""
    change, mismatch, words = DAMAGES[damage]
    b = netweave.load(corpus / "mtcnn" / f"{name}-symbol.json")
    filters = b.model.graph.initializers["conv1_weight"].const_value.numpy()
    (culprit,) = _culprits(corpus / "mtcnn", name, conv1_weight=np.ascontiguousarray(change(filters)))
    assert (culprit.layer_b, culprit.mismatch) == ("conv1", mismatch)
    assert words in culprit.cause


@pytest.mark.parametrize(
    ("name", "node", "setting", "value", "mismatch"),
    [
        ("det1", "pool1", "pooling_convention", "valid", "pool-rounding"),
        ("det2", "pool1", "pad", "(1,1)", "padding"),
        ("det1", "conv3", "stride", "(2,2)", "stride"),
    ],
)
def test_one_changed_setting_is_found(copies, name, node, setting, value, mismatch):
    file = copies / f"{name}-symbol.json"
    symbol = json.loads(file.read_text())
    (entry,) = [n for n in symbol["nodes"] if n["name"] == node]
    entry["param"][setting] = value
    file.write_text(json.dumps(symbol, indent=2))
    (culprit,) = _culprits(copies, name)
    assert culprit.layer_b == node
    assert culprit.mismatch == mismatch
    assert culprit.error_fixed < 1e-5

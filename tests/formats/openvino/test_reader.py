"""IR files that no OpenVINO writes: everything that is refused, and how inputs are named and sized."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict
from netweave.errors import NetweaveError, ReadError, ShapeError, UnsupportedError, UsageError, WeightError
from tests.comparison.onnx_text import read_text

GOLDEN = Path(__file__).parents[2] / "golden" / "openvino"

INPUT = (
    '<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,3" element_type="f32"/>'
    '<output><port id="0" precision="FP32" names="image"><dim>-1</dim><dim>3</dim></port></output></layer>'
)
CONSTANT = (
    '<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="1,3" offset="4" '
    'size="12"/><output><port id="0" precision="FP32"><dim>1</dim><dim>3</dim></port></output></layer>'
)
SUM = (
    '<layer id="2" name="sum" type="Add" version="opset1"><data auto_broadcast="numpy"/><input><port id="0"/>'
    '<port id="1"/></input><output><port id="2" precision="FP32"><dim>-1</dim><dim>3</dim></port></output>'
    "</layer>"
)
RESULT = '<layer id="3" name="end" type="Result" version="opset1"><input><port id="0"/></input></layer>'
EDGES = (
    '<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>'
    '<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>'
    '<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>'
)
NET = (
    f'<?xml version="1.0"?>\n<net name="net" version="11">\n<layers>{INPUT}\n{CONSTANT}\n{SUM}\n{RESULT}'
    f"</layers>\n<edges>{EDGES}</edges></net>"
)
WEIGHTS = struct.pack("<4f", 9, 1, 2, 3)


def load(folder: Path, text: str = NET, weights: bytes | None = WEIGHTS, **more) -> netweave.Graph:
    (folder / "net.xml").write_text(text)
    if weights is not None:
        (folder / "net.bin").write_bytes(weights)
    return netweave.load(folder / "net.xml", **more)


def test_a_net_of_one_sum(tmp_path):
    graph = load(tmp_path)
    assert [value.name for value in graph.inputs] == ["image"]
    assert graph.layers["sum"].origin.line == 5
    assert graph.parameters["w"].shape == (1, 3)
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(netweave.run(graph, {"image": x})["sum"], x + np.array([1, 2, 3]))


def test_the_file_of_weights_may_be_given(tmp_path):
    (tmp_path / "other.weights").write_bytes(WEIGHTS)
    (tmp_path / "net.xml").write_text(NET)
    graph = netweave.load(tmp_path / "net.xml", weights=tmp_path / "other.weights")
    assert graph.files == (str(tmp_path / "net.xml"), str(tmp_path / "other.weights"))


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('offset="4"', 'offset="8"', WeightError, r"lies at bytes 8 to 20 of .*net.bin, which has 16"),
        ('offset="4"', 'offset="999999999999999999"', WeightError, "was it copied whole"),
        ('offset="4"', 'offset="-4"', ReadError, "offset='-4', expected a whole number"),
        ('size="12"', 'size="8"', ReadError, r"has 8 bytes, expected 12 for \[1, 3\] f32"),
        ('shape="1,3" offset', 'shape="1099511627776,99999999" offset', ReadError, "which no array can have"),
        ('shape="1,3" offset', 'shape="?,3" offset', ReadError, "which no array can have"),
        ('element_type="f32" shape', 'element_type="nf4" shape', UnsupportedError, "elements of type 'nf4'"),
        ('version="11"', 'version="6"', UnsupportedError, "expected <net> of version 10 or 11"),
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="0"', ReadError, "has two edges"),
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="7"', ReadError, "has no edge to its port '1'"),
        (
            'from-layer="1"',
            'from-layer="8"',
            ReadError,
            "reads the layer '8', which the file does not",
        ),
        (
            'from-layer="1" from-port="0"',
            'from-layer="2" from-port="2"',
            ReadError,
            "depends on its own output",
        ),
        (
            'from-layer="1" from-port="0"',
            'from-layer="1" from-port="5"',
            ReadError,
            "reads output '5' of",
        ),
        ('id="1" name="w"', 'id="0" name="w"', ReadError, "two layers with the id '0'"),
        ('type="Result"', 'type="Sigmoid"', ReadError, "has no layer of type Result"),
        ('type="Add"', 'type="Addd"', UnsupportedError, r"line 5; did you mean 'Add'\?"),
        ('type="Add"', 'type="Loop"', UnsupportedError, "a net inside of the net"),
        ('auto_broadcast="numpy"', 'auto_broadcast="pdpd"', UnsupportedError, "auto_broadcast='pdpd'"),
        ('shape="?,3"', 'shape="?,x"', ReadError, "has the size 'x', expected a whole number"),
        ('shape="?,3"', 'shape="..."', ShapeError, "--input-shape image=1x3x224x224"),
        ('shape="?,3"', 'shape="0,3"', ShapeError, "every size must be 1 or more"),
        ('shape="?,3"', 'shape="?,4"', ShapeError, "net.xml:5: layer 'sum'"),
        ("</edges>", "", ReadError, "is not XML: mismatched tag"),
        ("<edges>", "<egdes>", ReadError, "is not XML"),
    ],
)
def test_damaged_files_are_refused(old, new, error, message, tmp_path):
    assert old in NET
    with pytest.raises(error, match=message):
        load(tmp_path, NET.replace(old, new))


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(WeightError, match=r"of the file of weights; there is none beside net.xml"):
        load(tmp_path, weights=None)


def test_sizes_of_inputs(tmp_path):
    assert load(tmp_path, input_shapes={"image": (5, 3)}).inputs[0].shape is not None
    with pytest.raises(UsageError, match="no input named 'x'; the inputs are 'image'"):
        load(tmp_path, input_shapes={"x": (5, 3)})
    with pytest.raises(UsageError, match="has 2 axes, but 1 sizes are given"):
        load(tmp_path, input_shapes={"image": (5,)})


def test_a_text_without_end_and_depth_is_refused(tmp_path):
    deep = NET.replace("<layers>", "<layers>" + "<a>" * 100 + "</a>" * 100)
    with pytest.raises(ReadError, match="nested more than 64 deep"):
        load(tmp_path, deep)


@pytest.mark.parametrize("name", ["small_f32.xml", "small_int8.bin"])
def test_files_cut_short_anywhere_are_refused_in_one_line(name, tmp_path):
    net = name.partition(".")[0]
    files = {end: (GOLDEN / f"{net}.{end}").read_bytes() for end in ("xml", "bin")}
    kind = name.rpartition(".")[2]
    for end in range(40, len(files[kind]) - 2, max(1, len(files[kind]) // 60)):
        for suffix, content in files.items():
            (tmp_path / f"net.{suffix}").write_bytes(content[:end] if suffix == kind else content)
        with pytest.raises(NetweaveError) as error:
            netweave.load(tmp_path / "net.xml")
        assert "report this as a bug" not in str(error.value)


def test_the_rest_of_integers_has_the_sign_of_the_divisor(tmp_path):
    text = NET.replace("f32", "i32").replace("FP32", "I32").replace('type="Add"', 'type="FloorMod"')
    graph = load(tmp_path, text, struct.pack("<4i", 9, 3, -3, 5))
    x = np.array([[-7, 7, -2]], np.int32)
    assert np.array_equal(netweave.run(graph, {"image": x})["sum"], [[2, -2, 3]])


def fake_quantised(folder: Path, low: float, high: float) -> netweave.Graph:
    """Return a net that rounds its input to 256 numbers between two limits."""
    ports = "".join(f'<port id="{index}"/>' for index in range(5))
    rounding = (
        '<layer id="2" name="sum" type="FakeQuantize" version="opset1"><data levels="256"/>'
        f'<input>{ports}</input><output><port id="5"><dim>-1</dim><dim>3</dim></port></output></layer>'
    )
    limits = "".join(
        f'<layer id="{4 + index}" name="limit{index}" type="Const" version="opset1"><data element_type="f32" '
        f'shape="" offset="{4 * index}" size="4"/><output><port id="0" precision="FP32"/></output></layer>'
        for index in range(2)
    )
    edges = "".join(
        f'<edge from-layer="{4 + index % 2}" from-port="0" to-layer="2" to-port="{1 + index}"/>'
        for index in range(4)
    )
    text = NET.replace(SUM, rounding).replace(CONSTANT, limits).replace(EDGES.split("/>")[1] + "/>", edges)
    return load(folder, text.replace('from-port="2"', 'from-port="5"'), struct.pack("<2f", low, high))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_fake_quantisation_is_the_pair_of_nodes_that_it_was_made_of(dtype, tmp_path):
    zero = {"int8": -15, "uint8": 113}[dtype]
    pair = read_text(
        f"g (float[N,3] image) => (float[N,3] y) <float s = {{0.05}}, {dtype} z = {{{zero}}}> "
        "{ q = QuantizeLinear(image, s, z) y = DequantizeLinear(q, s, z) }",
        tmp_path,
        "pair",
    )
    graph = fake_quantised(tmp_path, -113 * 0.05, 142 * 0.05)
    for nets in ((pair, graph), (graph, pair)):
        assert netweave.compare(*nets).verdict is Verdict.IDENTICAL
    shifted = fake_quantised(tmp_path, -112 * 0.05, 143 * 0.05)
    assert netweave.compare(pair, shifted).verdict is not Verdict.IDENTICAL


def test_fake_quantisation_between_limits_of_which_zero_is_no_level(tmp_path):
    graph = fake_quantised(tmp_path, -1.01, 1.5)
    x = np.array([[-3, 0, 1.2]], np.float32)
    step = 2.51 / 255
    expected = [[-1.01, 103 * step - 1.01, 225 * step - 1.01]]
    assert np.allclose(netweave.run(graph, {"image": x})["sum"], expected, atol=1e-6)

"""The published JSON Schema against what comparisons are written as."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest

import netweave
from netweave.comparison import open_comparison, save_comparison

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "comparison.schema.json").read_text(encoding="utf-8")
)

FRAME = '<ir_version: 9, opset_import: ["" : 19]> g (float[1,3,8,8] x) => (float[1,C,H,W] y) '

NETS = {
    "pool": "{ y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }",
    "smaller": "{ y = MaxPool<kernel_shape=[2,2], strides=[4,4]>(x) }",
    "bounded": "<float lo = {0.0}, float hi = {6.0}> { y = Clip(x, lo, hi) }",
    "unbounded": "<float lo = {0.0}, float hi = {600.0}> { y = Clip(x, lo, hi) }",
    "rounded": "<float s = {0.05}, int8 z = {3}> { p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) "
    "q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z) }",
    "turned": "{ t = Transpose<perm=[0,1,3,2]>(x) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(t) }",
}


@pytest.fixture(scope="module")
def valid():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA).validate


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("pool", "pool"),
        ("pool", "smaller"),
        ("bounded", "unbounded"),
        ("pool", "rounded"),
        ("pool", "turned"),
        ("pool", "bounded"),
    ],
)
def test_a_comparison_has_the_published_form_and_is_opened_again(tmp_path, valid, a, b):
    for name in (a, b):
        onnx.save(onnx.parser.parse_model(FRAME + NETS[name]), tmp_path / f"{name}.onnx")
    compared = netweave.compare(tmp_path / f"{a}.onnx", tmp_path / f"{b}.onnx")
    save_comparison(compared, tmp_path / "saved.json")
    text = (tmp_path / "saved.json").read_text(encoding="utf-8")
    valid(json.loads(text, parse_constant=pytest.fail))
    opened = open_comparison(tmp_path / "saved.json")
    assert (opened.groups, opened.error, opened.headline) == (
        compared.groups,
        compared.error,
        compared.headline,
    )


def test_what_the_form_lacks_is_refused(valid):
    with pytest.raises(jsonschema.ValidationError):
        valid({"version": 2})

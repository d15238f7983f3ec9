"""The dialects of all formats, and a format that is added."""

from __future__ import annotations

import sys

import onnx_ir as ir
import pytest

import netweave
from netweave import formats
from netweave.comparison.explain.wording import activation_setting, operator, setting
from netweave.formats import registry
from netweave.formats.dialect import Dialect, dialect_of
from tests.comparison.onnx_text import read_text

NETS = [row.name for row in formats.FORMATS if row.name != "arrays"]
"""Formats whose files hold layers."""


@pytest.mark.parametrize("name", NETS)
def test_a_dialect_has_words_for_pads_strides_and_rounding(name):
    words = dialect_of(name)
    assert words != Dialect()
    padding = words.padding
    assert padding.both or padding.each or (padding.zero and padding.same)
    assert setting(name, ir.Node("", "Conv", []), "strides", (2, 2))
    assert words.rounding is None or words.rounding


@pytest.mark.parametrize("name", NETS)
def test_a_dialect_has_words_for_activations(name):
    words = dialect_of(name)
    relu, sigmoid = (ir.Node("", op_type, [ir.Value(name="x")]) for op_type in ("Relu", "Sigmoid"))
    assert operator(name, relu, sigmoid) or activation_setting(name, relu)
    assert not words.own_activations or "" in words.own_activations


PACKAGE = """from netweave.formats.toy.reader import match"""

READER = """
from netweave.graph import GraphBuilder, Layer

def match(source):
    return source.net.suffix == ".toy"

def read(source):
    builder = GraphBuilder("toy", format="toy", files=[str(source.net)])
    x = builder.input("x", (1, 2, 8, 8))
    pad = int(source.net.read_text())
    with builder.layer(Layer(key="pool", name="pool", type="pool")):
        y = builder.add("MaxPool", [x], {"kernel_shape": [3, 3], "pads": [pad] * 4}, outputs="y")
    return builder.finish([y])
"""

DIALECT = """
from netweave.formats.dialect import Dialect, Padding

DIALECT = Dialect(padding=Padding(both="margin {begin}"), is_one_size=True)
"""


def test_a_format_is_a_package_and_a_row(monkeypatch, tmp_path):
    """A format that is added in a folder of its own is read, compared and explained in its own words."""
    package = tmp_path / "formats" / "toy"
    package.mkdir(parents=True)
    for name, text in (("__init__", PACKAGE), ("reader", READER), ("dialect", DIALECT)):
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(package.parent)])
    monkeypatch.setattr(registry, "FORMATS", (*registry.FORMATS, registry.Format("toy", "Toy", "NET.toy")))
    a = read_text(
        "g (float[1,2,8,8] x) => (float[1,2,8,8] y) { y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(x) }",
        tmp_path,
        "a",
    )
    (tmp_path / "b.toy").write_text("0")
    try:
        comparison = netweave.compare(a, tmp_path / "b.toy")
    finally:
        for name in [name for name in sys.modules if name.startswith("netweave.formats.toy")]:
            del sys.modules[name]
        dialect_of.cache_clear()
    assert "margin 1" in [finding.fix for finding in comparison.findings]

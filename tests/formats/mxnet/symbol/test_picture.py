"""The picture of a net: well-formed, complete, and without boxes on top of each other."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from netweave import symbol as sym
from tests.formats.mxnet.symbol.programs import PROGRAMS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_operator_has_a_box_of_its_own(name):
    net = PROGRAMS[name].make(sym, sym)
    root = ElementTree.fromstring(net.plot(**PROGRAMS[name].shapes))
    titles = [title.text.partition(":")[0] for title in root.iter(f"{SVG}title")]
    operators = [n for n in net.get_internals() if n.get_children() is not None]
    assert {node.name for node in operators} <= set(titles)
    boxes = [
        tuple(float(box.get(key)) for key in ("x", "y", "width", "height")) for box in root.iter(f"{SVG}rect")
    ]
    for i, (x, y, w, h) in enumerate(boxes):
        assert not [1 for a, b, c, d in boxes[:i] if x < a + c and a < x + w and y < b + d and b < y + h]
        assert x >= 0
        assert x + w <= float(root.get("width"))


def test_lines_lead_downwards_and_carry_sizes():
    x = sym.Variable("data")
    net = sym.relu(sym.relu(sym.relu(x, name="a"), name="b"), name="c") + x
    text = net.plot(data=(2, 3))
    assert text.count("2×3") == 5
    for path in re.findall(r'path d="([^"]*)"', text):
        heights = [float(pair.split()[1]) for pair in re.findall(r"[\d.-]+ [\d.-]+", path)]
        assert heights == sorted(heights)
    assert net._repr_svg_().startswith("<svg")


def test_names_are_escaped():
    assert "a&lt;b" in sym.relu(sym.Variable("a<b")).plot()

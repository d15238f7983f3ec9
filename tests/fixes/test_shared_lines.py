"""A line that makes several layers is changed only where that is right for all of them."""

from __future__ import annotations

import pytest

from netweave.comparison import OPERATOR, Edit, Finding
from netweave.fixes.shared_lines import edits_for_all
from netweave.fixes.text import NotAppliedError
from netweave.graph import Layer, LayerTable, Origin

TEXT = """class Block:
    def __init__(self, width, stride, pad=1):
        self.a = Conv2d(width, 3)
        self.b = Conv2d(width, 3, stride=stride)
        self.c = Conv2d(width, 3, stride=stride * 1)
"""


def table(settings: dict[str, list[int]]) -> LayerTable:
    """Layers of blocks, ``0.a`` in line 3, ``1.b`` in line 4, each with its stride."""
    return LayerTable(
        Layer(
            name,
            name,
            "Conv2d",
            {"stride": stride},
            origin=Origin("net.py", 9),
            definition=Origin("net.py", 3 + "abc".index(name[-1])),
        )
        for name, stride in settings.items()
    )


def finding(layer: str, value: str, name: str = "stride") -> Finding:
    line = 3 + "abc".index(layer[-1])
    return Finding("stride", "", place_b=f"net.py:{line}", layer_b=layer, edits=(Edit(name, value),))


def edits(layers: dict[str, list[int]], *wanted: Finding, text: str = TEXT) -> str:
    ((edit),) = edits_for_all(table(layers), wanted[0], wanted, text)
    return edit.value


def test_a_value_that_all_others_have_already_is_written():
    assert edits({"0.b": [1, 1], "1.b": [2, 2]}, finding("1.b", "1")) == "1"
    assert edits({"0.b": [1, 1], "1.b": [2, 2]}, finding("1.b", "(1, 1)")) == "(1, 1)"


def test_findings_of_all_layers_are_written():
    assert edits({"0.b": [1, 1], "1.b": [2, 2]}, finding("1.b", "3"), finding("0.b", "3")) == "3"


@pytest.mark.parametrize("first", [{}, {"2.a": [2, 2], "2.b": [2, 2]}])
def test_a_parameter_that_has_the_value_in_each_block_is_written(first):
    layers = first | {"0.a": [1, 1], "1.a": [1, 1], "0.b": [1, 1], "1.b": [2, 2]}
    assert edits(layers, finding("1.a", "2")) == "stride"


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        ({"0.b": [2, 2], "1.b": [2, 2]}, TEXT),  # the parameter would change the first block
        ({"0.b": [1, 1], "1.b": [3, 3]}, TEXT),  # it has another value in the second
        ({"1.b": [2, 2]}, TEXT),  # what it is in the first is not known
        ({"0.c": [1, 1], "1.c": [2, 2]}, TEXT),  # no call is given it as it is
        ({"0.b": [1, 1], "1.b": [2, 2]}, TEXT.replace("        self.a", "        stride = 2; self.a")),
    ],
)
def test_a_line_is_left_alone_where_other_layers_would_change(layers, text):
    layers = {"0.a": [1, 1], "1.a": [1, 1]} | layers
    with pytest.raises(NotAppliedError, match=r"line 3 also makes 0\.a, which the change would change"):
        edits(layers, finding("1.a", "2"), text=text)


def test_another_function_is_not_taken_for_a_setting():
    with pytest.raises(NotAppliedError, match=r"also makes 0\.a"):
        edits({"0.a": [1, 1], "1.a": [1, 1]}, finding("1.a", "1", OPERATOR))

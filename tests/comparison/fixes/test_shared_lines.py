"""A line that makes several layers is changed only where that is right for all of them."""

from __future__ import annotations

import pytest

from netweave.comparison import OPERATOR, Edit, Finding
from netweave.comparison.fixes.python_callers import edit_caller
from netweave.comparison.fixes.shared_lines import changes_for_all
from netweave.comparison.fixes.text import NotAppliedError
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
    (change,) = changes_for_all(table(layers), wanted[0], wanted, lambda file: text)
    assert (change.file, change.line) == ("net.py", int(wanted[0].place_b.rpartition(":")[2]))
    (edit,) = change.edits
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


CALLED = """def conv_bn(inputs, outputs, step=1, pad=0):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, step, padding=pad),
        nn.BatchNorm2d(outputs, eps=1e-3),
    )
class Branch(nn.Module):
    def __init__(self, width, stride):
        self.conv = conv_bn(width, width, stride)
class Net:
    def __init__(self):
        self.first = conv_bn(3, 8, 2)
        self.more = nn.Sequential(*[conv_bn(8, 8) for i in range(2)])
        self.branch = Branch(8, stride=2)
        self.last = conv_bn(8, 8, pad=1)
"""

MADE = {"first.0": (11,), "more.0.0": (12,), "more.1.0": (12,), "branch.conv.0": (8, 13), "last.0": (14,)}
"""Convolutions, and the lines that called the function which makes them in line 3."""


def called(**settings: dict[str, list[int]]) -> LayerTable:
    plain = {"stride": [1, 1], "padding": [0, 0]}
    return LayerTable(
        Layer(
            name,
            name,
            "Conv2d",
            plain | settings.get(name.partition(".")[0], {}),
            origin=Origin("net.py", 30),
            definition=Origin("net.py", 3),
            callers=tuple(Origin("net.py", line) for line in lines),
        )
        for name, lines in MADE.items()
    )


def of_called(layer: str, name: str, value: str) -> Finding:
    return Finding("x", "", place_b="net.py:3", layer_b=layer, edits=(Edit(name, value),))


@pytest.mark.parametrize(
    ("wanted", "line", "old", "new"),
    [
        ([("first.0", "stride", "1")], 11, "conv_bn(3, 8, 2)", "conv_bn(3, 8, 1)"),
        ([("last.0", "padding", "2")], 14, "pad=1", "pad=2"),
        ([("first.0", "padding", "2")], 11, "conv_bn(3, 8, 2)", "conv_bn(3, 8, 2, pad=2)"),
        ([("branch.conv.0", "stride", "3")], 8, "width, width, stride)", "width, width, 3)"),
        (
            [("more.0.0", "stride", "2"), ("more.1.0", "stride", "2")],
            12,
            "conv_bn(8, 8) for",
            "conv_bn(8, 8, step=2) for",
        ),
    ],
)
def test_what_a_function_is_given_is_changed_where_it_is_called(wanted, line, old, new):
    findings = [of_called(*row) for row in wanted]
    layers = called(first={"stride": [2, 2]}, branch={"stride": [2, 2]}, last={"padding": [1, 1]})
    for finding in findings:
        (change,) = changes_for_all(layers, finding, findings, lambda file: CALLED)
        assert (change.file, change.line) == ("net.py", line)
        changed = edit_caller(CALLED, change.line, change.passed, change.edits[0].value)
        assert changed == CALLED.replace(old, new)


def test_the_caller_of_a_caller_is_changed_where_that_has_several():
    """Two branches call the function at one line; the line that makes the one branch differs."""
    text = CALLED.replace("        self.last", "        self.other = Branch(8, 2)\n        self.last")
    layers = LayerTable(
        [
            *called(branch={"stride": [2, 2]}).values(),
            Layer(
                "other.conv.0",
                "other.conv.0",
                "Conv2d",
                {"stride": [2, 2]},
                definition=Origin("net.py", 3),
                callers=(Origin("net.py", 8), Origin("net.py", 14)),
            ),
        ]
    )
    finding = of_called("branch.conv.0", "stride", "1")
    (change,) = changes_for_all(layers, finding, [finding], lambda file: text)
    assert edit_caller(text, change.line, change.passed, "1") == text.replace("stride=2)", "stride=1)")


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        # the other one of the loop would change as well
        (of_called("more.0.0", "stride", "2"), CALLED),
        # the function is not given it
        (of_called("first.0", "dilation", "2"), CALLED),
        # it is used for more than that
        (of_called("first.0", "stride", "3"), CALLED.replace("1e-3", "1e-3 * step")),
        (of_called("first.0", "stride", "3"), CALLED.replace("    return", "    step = 2; return")),
        # which argument it is is not known
        (of_called("first.0", "stride", "3"), CALLED.replace("(3, 8, 2)", "(*sizes)")),
    ],
)
def test_a_caller_is_left_alone_where_more_would_change(finding, text):
    layers = called(first={"stride": [2, 2]})

    def mended() -> str:
        (change,) = changes_for_all(layers, finding, [finding], lambda file: text)
        return edit_caller(text, change.line, change.passed, change.edits[0].value)

    with pytest.raises(NotAppliedError, match=r"line 3 also makes|is not clear"):
        mended()

"""Calls of Python source are changed where they stand: functions, arguments, orders, what is returned."""

from __future__ import annotations

import ast

import pytest

from netweave.comparison import INPUT_ORDER, OPERATOR, OUTPUT, Edit
from netweave.comparison.fixes.mending import copy_line
from netweave.comparison.fixes.python_source import edit_all_calls, edit_python
from netweave.comparison.fixes.text import NotAppliedError, SeveralCallsError
from tests.comparison.fixes.test_editors import edits


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("y = torch.cat((f(a), b[:, 1]), dim=1)\n", "y = torch.cat((b[:, 1], f(a)), dim=1)\n"),
        ("y = F.concat([x, größe], axis=1)\n", "y = F.concat([größe, x], axis=1)\n"),
        ('y = L.Concatenate(name="c")([a, b])\n', 'y = L.Concatenate(name="c")([b, a])\n'),
        ("y = torch.cat(\n    [a,\n     b], 1)\n", "y = torch.cat(\n    [b,\n     a], 1)\n"),
    ],
)
def test_what_python_joins_is_put_in_another_order(text, wanted):
    assert edit_python(text, 1, "cat", [Edit(INPUT_ORDER, "2, 1")]) == wanted


LISTED = """def outer(parts):
    def forward(self, x):
        a, b = self.a(x), self.b(x)
        parts = [a, b]
        return torch.cat(parts, 1)
"""


def test_inputs_that_are_listed_in_a_variable_are_put_in_another_order_there():
    wanted = LISTED.replace("[a, b]", "[b, a]")
    assert edit_python(LISTED, 5, "cat", [Edit(INPUT_ORDER, "2, 1")]) == wanted


@pytest.mark.parametrize(
    "more",
    ["        parts.append(b)\n", "        parts = parts[::-1]\n", "        print(parts)\n"],
    ids=["appended", "assigned", "read"],
)
def test_a_variable_that_is_used_besides_stays(more):
    text = LISTED.replace("        return", f"{more}        return")
    with pytest.raises(NotAppliedError, match="no call at line 6 lists what it joins"):
        edit_python(text, 6, "cat", [Edit(INPUT_ORDER, "2, 1")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y = torch.cat(parts, 1)\n", "no call at line 1 lists what it joins"),
        ("y = torch.cat((a, *parts), 1)\n", "joins a list whose length the text does not say"),
        ("y = torch.cat((a, b, c), 1)\n", "3 inputs in the file and 2 in the net"),
        ("y = torch.cat((torch.cat((a, b), 1), c), 1)\n", "no call at line 1 lists what it joins"),
    ],
)
def test_what_python_does_not_list_is_not_put_in_another_order(text, message):
    with pytest.raises(NotAppliedError, match=message):
        edit_python(text, 1, "cat", [Edit(INPUT_ORDER, "2, 1")])


CALLS = """import chainer.functions as F
import keras
from keras.layers import ReLU
from torch import nn
from torch.nn import functional

L = keras.layers
h = F.max_pooling_2d(F.relu(self.conv(h)), ksize=3)
h = F.leaky_relu(h, slope=0.3)
x = functional.relu(x, inplace=True)
self.act = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True))
x = L.Conv2D(8, 3, activation="tanh", name="conv")(x)
x = L.ReLU(6.0, name="act")(L.BatchNormalization(name="bn")(x))
x = L.Activation("relu", name="last")(x)
x = L.MaxPooling2D(3, 2, padding="same", name="pool")(x)
h = F.concat((a, self.b(c), d), axis=1)
x = ReLU(name="imported")(x)
x = torch.relu(x)
x = F.relu(F.tanh(x))
self.act = nn.ReLU6(inplace=True)
self.act = nn.ReLU(True)
x = L.ReLU(name=f"b{i}_relu")(L.Multiply(name=f"b{i}_add")([x, y]))
x = F.avg_pool2d(self.act(x), 7)
"""
"""Lines of Chainer, PyTorch and Keras; the first of them is the eighth."""


@pytest.mark.parametrize(
    ("line", "layer", "value", "expected"),
    [
        (8, "relu", "F.sigmoid", "h = F.max_pooling_2d(F.sigmoid(self.conv(h)), ksize=3)"),
        (
            8,
            "max_pooling_2d",
            "F.average_pooling_2d(ksize=3, stride=2, pad=(0, 1))",
            "h = F.average_pooling_2d(F.relu(self.conv(h)), ksize=3, stride=2, pad=(0, 1))",
        ),
        (9, "leaky_relu", "F.relu", "h = F.relu(h)"),
        (10, "relu", "nn.LeakyReLU(0.1)", "x = functional.leaky_relu(x, 0.1, inplace=True)"),
        (11, "act.1", "nn.Tanh()", "self.act = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh())"),
        (12, "conv", "ReLU()", "x = L.Conv2D(8, 3, activation='relu', name=\"conv\")(x)"),
        (12, "conv", "Activation('sigmoid')", "x = L.Conv2D(8, 3, activation='sigmoid', name=\"conv\")(x)"),
        (13, "act", "ReLU()", 'x = L.ReLU(name="act")(L.BatchNormalization(name="bn")(x))'),
        (13, "act", "ReLU(4)", 'x = L.ReLU(4, name="act")(L.BatchNormalization(name="bn")(x))'),
        (14, "last", "Activation('tanh')", "x = L.Activation('tanh', name=\"last\")(x)"),
        (
            15,
            "pool",
            "AveragePooling2D",
            'x = L.AveragePooling2D(3, 2, padding="same", name="pool")(x)',
        ),
        (17, "imported", "ReLU(6)", 'x = ReLU(6, name="imported")(x)'),
        (20, "act", "nn.ReLU()", "self.act = nn.ReLU(inplace=True)"),
        (21, "act", "nn.LeakyReLU(0.1)", "self.act = nn.LeakyReLU(0.1, inplace=True)"),
        (23, "pool", "nn.AdaptiveAvgPool2d(1)", "x = F.adaptive_avg_pool2d(self.act(x), 1)"),
        (22, "b2_add", "Add", 'x = L.ReLU(name=f"b{i}_relu")(L.Add(name=f"b{i}_add")([x, y]))'),
    ],
)
def test_a_line_calls_something_else(line, layer, value, expected):
    changed = edit_python(CALLS, line, layer, [Edit(OPERATOR, value)])
    before, after = CALLS.splitlines(), changed.splitlines()
    assert [n for n, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]] == [line]
    assert ast.dump(ast.parse(after[line - 1])) == ast.dump(ast.parse(expected))


@pytest.mark.parametrize(
    ("line", "layer", "value", "why"),
    [
        (12, "conv", "LeakyReLU(0.2)", "takes only the name of one"),
        (17, "imported", "LeakyReLU(0.1)", "may not import LeakyReLU"),
        (18, "relu", "nn.LeakyReLU(0.1)", "calls no function that LeakyReLU can stand for"),
        (19, "unknown", "F.elu", "2 calls that could become"),
        (2, "act", "F.elu", "0 calls that could become"),
    ],
)
def test_a_line_that_could_mean_something_else_is_left_alone(line, layer, value, why):
    with pytest.raises(NotAppliedError, match=why):
        edit_python(CALLS, line, layer, [Edit(OPERATOR, value)])


def test_what_is_called_and_its_settings_are_not_changed_at_once():
    with pytest.raises(NotAppliedError, match="settings besides"):
        edit_python(CALLS, 9, "leaky_relu", [Edit(OPERATOR, "F.relu"), Edit("slope", "0.1")])


SOURCE = "def forward(self, h):\n    h = self.conv(h)\n    h = F.relu(h)\n    return self.fc(h)\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("instead", ["", "    h = h\n"])
def test_a_line_that_only_the_first_net_has_is_copied(instead, end):
    without = SOURCE.replace("    h = F.relu(h)\n", instead).replace("\n", end)
    assert copy_line(SOURCE, without, 3) == SOURCE.replace("\n", end)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (SOURCE, 3, "has the first net's line 3 already"),
        ("x = 1\ny = 2\n", 3, "not the same around line 3"),
        (SOURCE.replace("    h = self.conv(h)\n", ""), 2, r"line 2 of the first net's file needs self\.conv"),
    ],
)
def test_a_line_that_does_not_fit_is_not_copied(text, line, why):
    with pytest.raises(NotAppliedError, match=why):
        copy_line(SOURCE, text, line)


@pytest.mark.parametrize(
    ("text", "sign", "wanted"),
    [
        ("out = x * self.conv(y)\n", "+", "out = x + self.conv(y)\n"),
        ("out *= residual\n", "+", "out += residual\n"),
        ("out = (x  # a * b\n       + y)\n", "*", "out = (x  # a * b\n       * y)\n"),
        ("out = f(a) - (b)\n", "+", "out = f(a) + (b)\n"),
        ("out = torch.mul(x, y)\n", "+", "out = torch.add(x, y)\n"),
        ("x = F.relu(h * y, 2 * 3)\n", "+", "x = F.relu(h + y, 2 * 3)\n"),
    ],
)
def test_an_operation_of_two_tensors_becomes_another(text, sign, wanted):
    assert edit_python(text, 1, "add", [Edit(OPERATOR, sign)]) == wanted


@pytest.mark.parametrize("text", ["x = a * b + c\n", "x = a / b\n", "x = torch.mul(a * b, c)\n"])
def test_of_several_operations_or_none_no_sign_is_changed(text):
    with pytest.raises(NotAppliedError, match=r"line 1 has \d sums, differences and products, expected one"):
        edit_python(text, 1, "add", [Edit(OPERATOR, "-")])


@pytest.mark.parametrize(
    ("text", "name", "value", "wanted"),
    [
        ("h = F.leaky_relu(h, 0.3)", "slope", "0.1", "h = F.leaky_relu(h, 0.1)"),
        ("h = F.leaky_relu(h, 0.3)", "negative_slope", "0.1", "h = F.leaky_relu(h, 0.1)"),
        ("L.BatchNormalization(8, 0.9, 2e-5)", "eps", "1e-3", "L.BatchNormalization(8, 0.9, 1e-3)"),
        ("x = BatchNormalization(-1)(x)", "epsilon", "1e-3", "x = BatchNormalization(-1, epsilon=1e-3)(x)"),
        ("x = LeakyReLU(alpha=0.3)(x)", "negative_slope", "0.1", "x = LeakyReLU(alpha=0.1)(x)"),
        ("L.DepthwiseConvolution2D(8, 1, 3, 1, 1)", "pad", "0", "L.DepthwiseConvolution2D(8, 1, 3, 1, 0)"),
        ("L.ZeroPadding2D(((0, 1), 0))", "padding", "((1, 0), (1, 0))", "L.ZeroPadding2D(((1, 0), (1, 0)))"),
        ("self.pad = nn.ZeroPad2d(1)", "padding", "(0, 1, 0, 1)", "self.pad = nn.ZeroPad2d((0, 1, 0, 1))"),
        ("h = F.clipped_relu(h, 20)", "z", "6", "h = F.clipped_relu(h, 6)"),
    ],
)  # fmt: skip
def test_an_argument_is_found_where_its_own_framework_has_it(text, name, value, wanted):
    assert edit_python(text, 1, "layer", [Edit(name, value)]) == wanted


def test_of_two_calls_on_a_line_the_one_in_its_place_of_the_sequential_is_changed():
    text = "self.act = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.BatchNorm2d(8))"
    wanted = "self.act = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.BatchNorm2d(8, eps=0.1))"
    assert edit_python(text, 1, "act.2", edits(eps="0.1")) == wanted


def returning(value: str, imports: str = "import torch", body: str = "") -> str:
    """A net whose forward returns something, in line 5."""
    return f"{imports}\nclass Net:\n    def forward(self, x):\n        {body}\n        return {value}\n"


@pytest.mark.parametrize(
    ("imports", "value", "edit", "wanted"),
    [
        ("import torch", "x", "1 of 1: softmax(dim=1)", "torch.softmax(x, dim=1)"),
        ("import torch as t", "x", "1 of 1: sigmoid()", "t.sigmoid(x)"),
        ("import torch.nn as nn", "self.fc(x)", "1 of 1: relu()", "nn.functional.relu(self.fc(x))"),
        ("from torch import nn", "x", "1 of 1: relu()", "nn.functional.relu(x)"),
        ("import torch.nn.functional as F", "a, b", "2 of 2: softmax(dim=1)", "a, F.softmax(b, dim=1)"),
        ("from torch.nn import functional", "[a, b + c]", "2 of 2: tanh()", "[a, functional.tanh(b + c)]"),
        ("import torch.nn", "x if a else b", "1 of 1: tanh()", "torch.tanh(x if a else b)"),
        ("from torch import nn; import torch", "größe", "1 of 1: tanh()", "torch.tanh(größe)"),
    ],
)
def test_a_function_more_is_computed_of_what_is_returned(imports, value, edit, wanted):
    changed = edit_python(returning(value, imports), 5, "", [Edit(OUTPUT, edit)])
    assert changed == returning(wanted, imports)


@pytest.mark.parametrize(
    ("text", "edit", "why"),
    [
        (returning("outputs"), "1 of 2: softmax(dim=1)", "does not list the 2 outputs"),
        (returning("(x,)"), "1 of 1: softmax(dim=1)", "does not list the 1 outputs"),
        (returning("a, *b"), "1 of 2: softmax(dim=1)", "does not list the 2 outputs"),
        (returning("{'a': x}"), "1 of 1: softmax(dim=1)", "does not list the 1 outputs"),
        (returning("x", "import numpy"), "1 of 1: softmax(dim=1)", "imports neither torch"),
        (returning("x", body="torch = self.torch"), "1 of 1: softmax(dim=1)", "imports neither torch"),
        (returning("x").replace("return x", "yield x"), "1 of 1: tanh()", "does not return"),
    ],
)
def test_what_is_returned_otherwise_is_left_alone(text, edit, why):
    with pytest.raises(NotAppliedError, match=why):
        edit_python(text, 5, "", [Edit(OUTPUT, edit)])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "nn.Conv2d(\n    8,  # channels\n    4,\n    kernel_size=1\n)\n",
            "nn.Conv2d(\n    8,  # channels\n    4,\n    kernel_size=1,\n    padding=1,\n    bias=False\n)\n",
        ),
        (
            "nn.Conv2d(\r\n    8, 4, 3,  # no padding\r\n)\r\n",
            "nn.Conv2d(\r\n    8, 4, 3,  # no padding\r\n    padding=1,\r\n    bias=False,\r\n)\r\n",
        ),
        ("nn.Conv2d(8, 4,\n          (3))\n", "nn.Conv2d(8, 4,\n          (3), padding=1, bias=False)\n"),
        ("nn.Conv2d(8, 4, 3, )\n", "nn.Conv2d(8, 4, 3, padding=1, bias=False )\n"),
        ("nn.Conv2d(8, 4, 3, bias=b, **more)\n", None),
    ],
)
def test_arguments_that_are_added_stand_behind_the_others(text, wanted):
    if wanted is None:  # more may hold the padding, which would be given twice
        with pytest.raises(NotAppliedError, match="no call at line 1 is known to take padding"):
            edit_python(text, 1, "conv", edits(padding="1", bias="False"))
        return
    assert edit_python(text, 1, "conv", edits(padding="1", bias="False")) == wanted


@pytest.mark.parametrize(
    ("text", "kind", "edit", "wanted"),
    [
        (
            "x = Seq(nn.ReLU6(), Conv(8), nn.ReLU6(inplace=True))",
            "ReLU6",
            Edit(OPERATOR, "nn.ReLU()"),
            "x = Seq(nn.ReLU(), Conv(8), nn.ReLU(inplace=True))",
        ),
        (
            "x = F.tanh(a) + F.tanh(b)",
            "aten.tanh",
            Edit(OPERATOR, "nn.Sigmoid()"),
            "x = F.sigmoid(a) + F.sigmoid(b)",
        ),
        (
            "b = [nn.BatchNorm2d(8), nn.BatchNorm2d(8, 1e-3), nn.BatchNorm1d(4)]",
            "BatchNorm2d",
            Edit("eps", "0.1"),
            "b = [nn.BatchNorm2d(8, eps=0.1), nn.BatchNorm2d(8, 0.1), nn.BatchNorm1d(4)]",
        ),
    ],
)
def test_all_calls_of_a_kind_at_a_line_are_changed(text, kind, edit, wanted):
    with pytest.raises(SeveralCallsError):
        edit_python(text, 1, "unknown", [edit])
    assert edit_all_calls(text, 1, kind, [edit]) == wanted


@pytest.mark.parametrize("kind", ["", "GELU", "Sequential"])
def test_calls_of_another_kind_are_left_alone(kind):
    text = "x = nn.Sequential(nn.Sequential(nn.ReLU6()), nn.ReLU6())"
    with pytest.raises(NotAppliedError, match="not all of"):
        edit_all_calls(text, 1, kind, [Edit(OPERATOR, "nn.ReLU()")])

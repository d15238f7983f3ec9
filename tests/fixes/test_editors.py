"""Settings are changed where they stand, everything else in a file stays as it is."""

from __future__ import annotations

import ast
import configparser
import json

import pytest

from netweave.comparison import INPUT_ORDER, OPERATOR, OUTPUT, Edit
from netweave.fixes.cfg import edit_cfg
from netweave.fixes.missing_layer import copy_layer, copy_line
from netweave.fixes.missing_node import copy_node
from netweave.fixes.prototxt import edit_prototxt
from netweave.fixes.python_source import edit_all_calls, edit_python
from netweave.fixes.symbol_json import edit_symbol
from netweave.fixes.text import NotAppliedError, SeveralCallsError
from tests.oracles import prototxt

POOL = """name: "net" # a comment with { in it
layer {
  name: "conv }" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 }
}
layer {
  name: "pool"
  type: "Pooling"  # keep me
  bottom: "conv"
  top: "pool"
  pooling_param {
    pool: MAX
    kernel_h: 3
    kernel_w: 3
    pad_h: 1 pad_w: 2
    stride: 2
  }
}
layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" }
"""


def edits(**settings: str) -> list[Edit]:
    return [Edit(name, value) for name, value in settings.items()]


def layer(text: str, name: str) -> dict[str, object]:
    """Return a layer as another parser reads it."""
    layers = [dict(fields) for key, fields in prototxt.parse(text) if key == "layer"]
    return next(fields for fields in layers if name in str(fields["name"]))


@pytest.mark.parametrize(
    ("line", "name", "param", "settings", "left"),
    [
        (6, "pool", "pooling_param", {"stride": "3"}, {"stride": "3", "pad_h": "1", "pad_w": "2"}),
        (6, "pool", "pooling_param", {"pad": "0"}, {"pad": "0", "stride": "2"}),
        (6, "pool", "pooling_param", {"kernel_size": "2", "pad_h": "0"}, {"kernel_size": "2", "pad_h": "0"}),
        (6, "pool", "pooling_param", {"round_mode": "FLOOR"}, {"round_mode": "FLOOR", "pool": "MAX"}),
        (2, "conv", "convolution_param", {"pad": "1", "dilation": "2"}, {"pad": "1", "dilation": "2"}),
        (19, "relu", "relu_param", {"negative_slope": "0.1"}, {"negative_slope": "0.1"}),
    ],
)
def test_a_setting_of_a_prototxt_replaces_what_it_stands_for(line, name, param, settings, left):
    changed = edit_prototxt(POOL, line, name, edits(**settings))
    found = dict(layer(changed, name)[param])
    assert {key: found.get(key) for key in left} == left
    if {"pad"} & settings.keys():
        assert not {"pad_h", "pad_w"} & found.keys()
    if "kernel_size" in settings:
        assert not {"kernel_h", "kernel_w"} & found.keys()
    others = [key for key in ("conv", "pool", "relu") if key != name]
    assert [layer(changed, key) for key in others] == [layer(POOL, key) for key in others]
    assert "# keep me" in changed
    assert "# a comment with { in it" in changed


def test_the_type_of_a_layer_is_a_setting_of_its_own():
    changed = edit_prototxt(POOL, 19, "relu", [Edit("type", '"TanH"')])
    assert layer(changed, "relu")["type"] == '"TanH"'


def test_a_line_without_a_layer_is_refused():
    with pytest.raises(NotAppliedError, match=r"no layer|inside a layer"):
        edit_prototxt(POOL, 18, "pool", [Edit("pad", "1")])
    with pytest.raises(NotAppliedError, match="no line 90"):
        edit_prototxt(POOL, 90, "pool", [Edit("pad", "1")])


NODES = [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "Pooling", "name": "pool", "inputs": [[0, 0, 0]], "attrs": {"kernel": "(3, 3)", "pad": "(1, 1)"}},
    {"op": "Flatten", "name": "flat", "inputs": [[1, 0, 0]], "attrs": {}},
    {"op": "Flatten", "name": "bare", "inputs": [[2, 0, 0]]},
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["pool", "flat", "bare"])
def test_a_symbol_is_changed_in_one_node_and_keeps_its_form(indent, name):
    symbol = {"nodes": NODES, "arg_nodes": [0], "heads": [[3, 0, 0]], "attrs": {"mxnet_version": ["int", 1]}}
    text = json.dumps(symbol, indent=indent)
    changed = edit_symbol(text, 0, name, edits(pad="(0, 0)", pooling_convention="full"))
    found = json.loads(changed)
    node = next(node for node in found["nodes"] if node["name"] == name)
    assert node["attrs"]["pad"] == "(0, 0)"
    assert node["attrs"]["pooling_convention"] == "full"
    node["attrs"] = next(old for old in NODES if old["name"] == name).get("attrs", {})
    if name == "bare":
        del node["attrs"]
    assert found == symbol
    assert abs(changed.count("\n") - text.count("\n")) <= 2


def test_the_operator_of_a_symbol_is_changed():
    nodes = [{"op": "elemwise_mul", "name": "sum", "inputs": [[0, 0, 0], [1, 0, 0]]}]
    changed = edit_symbol(json.dumps({"nodes": nodes}), 0, "sum", edits(op="elemwise_add"))
    assert json.loads(changed) == {"nodes": [nodes[0] | {"op": "elemwise_add"}]}


def symbol(*rows: tuple[str, str, list[list[int]]], heads: list[list[int]]) -> dict[str, object]:
    """A symbol of nodes: name, operator, inputs; each has one output."""
    nodes = [{"op": op, "name": name, "inputs": inputs} for name, op, inputs in rows]
    names = [number for number, node in enumerate(nodes) if node["op"] == "null"]
    rows_before = list(range(len(nodes) + 1))
    return {"nodes": nodes, "arg_nodes": names, "node_row_ptr": rows_before, "heads": heads}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_node_of_a_symbol_is_copied_between_what_it_reads_and_what_reads_it(indent):
    right = symbol(
        ("data", "null", []),
        ("first", "Pooling", [[0, 0, 0]]),
        ("relu", "Activation", [[1, 0, 0]]),
        ("w", "null", []),
        ("fc", "FullyConnected", [[2, 0, 0], [3, 0, 0]]),
        ("sum", "elemwise_add", [[1, 0, 0], [2, 0, 0]]),
        heads=[[4, 0, 0], [2, 0, 0], [5, 0, 0], [1, 0, 0]],
    )
    without = symbol(
        ("data", "null", []),
        ("first", "Pooling", [[0, 0, 0]]),
        ("w", "null", []),
        ("fc", "FullyConnected", [[1, 0, 0], [2, 0, 0]]),
        ("sum", "elemwise_add", [[1, 0, 0], [1, 0, 0]]),
        heads=[[3, 0, 0], [1, 0, 0], [4, 0, 0], [1, 0, 0]],
    )
    text = json.dumps(without, indent=indent)
    changed = copy_node(json.dumps(right, indent=indent), text, "relu")
    assert json.loads(changed) == right
    assert (changed.count("\n") > text.count("\n")) == (indent is not None)


def test_a_node_of_a_symbol_that_needs_more_is_not_copied():
    right = symbol(("data", "null", []), ("w", "null", []), ("p", "Pooling", [[0, 0, 0]]), heads=[[2, 0, 0]])
    dense = symbol(*RELU[:2], ("relu", "FullyConnected", [[0, 0, 0], [1, 0, 0]]), heads=[[2, 0, 0]])
    without = symbol(*RELU[:2], heads=[[1, 0, 0]])
    for a, b, why in (
        (dense, without, "relu reads 2 nodes or arrays"),
        (symbol(*RELU, heads=[[2, 0, 0]]), right, "no node 'pool', as the first net's has"),
        (
            symbol(*RELU, heads=[[2, 0, 0]]),
            symbol(*RELU[:2], heads=[[0, 0, 0]]),
            "nothing that reads pool",
        ),
        (symbol(*RELU, heads=[[2, 0, 0]]), symbol(*RELU, heads=[[2, 0, 0]]), "another node called 'relu'"),
    ):
        with pytest.raises(NotAppliedError, match=why):
            copy_node(json.dumps(a), json.dumps(b), "relu")


RELU = (("data", "null", []), ("pool", "Pooling", [[0, 0, 0]]), ("relu", "Activation", [[1, 0, 0]]))


def test_a_symbol_without_the_node_is_refused():
    with pytest.raises(NotAppliedError, match="no node 'gone'"):
        edit_symbol(json.dumps({"nodes": NODES}), 0, "gone", edits(pad="0"))
    with pytest.raises(NotAppliedError, match="no symbol"):
        edit_symbol("[1, 2]", 0, "gone", edits(pad="0"))


CFG = """[net]
width=32

[convolutional]
size = 3   # a comment
pad=1
filters=8
activation=leaky

[maxpool]
size=2
"""


def test_a_section_of_a_cfg_is_changed_and_no_other():
    changed = edit_cfg(CFG, 4, "convolutional_0", edits(size="5", stride="2"))
    found = configparser.ConfigParser(inline_comment_prefixes="#")
    found.read_string(changed)
    assert dict(found["convolutional"]) == {
        "size": "5",
        "pad": "1",
        "filters": "8",
        "activation": "leaky",
        "stride": "2",
    }
    assert dict(found["maxpool"]) == {"size": "2"}
    assert "# a comment" in changed


def test_padding_of_a_cfg_takes_the_place_of_pad():
    changed = edit_cfg(CFG, 4, "convolutional_0", edits(padding="2"))
    found = configparser.ConfigParser(inline_comment_prefixes="#")
    found.read_string(changed)
    assert (found["convolutional"]["pad"], found["convolutional"]["padding"]) == ("0", "2")


PYTHON = """import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.größe = nn.Conv2d(3, 8, 3, 1, (1), bias=False)  # größer
        self.pool = nn.MaxPool2d(3, stride=2,)
        self.act = nn.Sequential(nn.BatchNorm2d(8, 1e-3), nn.LeakyReLU())
        self.two, self.three = nn.MaxPool2d(2), nn.MaxPool2d(3)
        self.built = nn.Conv2d(*[3, 8, 3])
"""


@pytest.mark.parametrize(
    ("line", "layer", "settings", "expected"),
    [
        (5, "größe", {"padding": "0"}, "nn.Conv2d(3, 8, 3, 1, (0), bias=False)"),
        (5, "größe", {"dilation": "2", "stride": "2"}, "nn.Conv2d(3, 8, 3, 2, (1), bias=False, dilation=2)"),
        (6, "pool", {"ceil_mode": "True"}, "nn.MaxPool2d(3, stride=2,ceil_mode=True)"),
        (7, "act.0", {"eps": "1e-05"}, "nn.BatchNorm2d(8, 1e-05)"),
        (7, "act.1", {"negative_slope": "0.2"}, "nn.LeakyReLU(negative_slope=0.2)"),
    ],
)
def test_an_argument_of_a_call_is_changed(line, layer, settings, expected):
    changed = edit_python(PYTHON, line, layer, edits(**settings))
    ast.parse(changed)
    before, after = PYTHON.splitlines(), changed.splitlines()
    assert [n for n, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]] == [line]
    wanted = ast.dump(ast.parse(expected.replace(",ceil", ", ceil")))
    found = [ast.dump(node) for node in ast.walk(ast.parse(changed)) if isinstance(node, ast.Call)]
    assert any(call in wanted for call in found)


def test_settings_stand_where_the_module_is_made_not_where_it_is_called():
    text = (
        PYTHON
        + """        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    def forward(self, x):
        return self.features(self.größe(x))
"""
    )
    changed = edit_python(text, 12, "größe", edits(padding="0"))
    assert "nn.Conv2d(3, 8, 3, 1, (0), bias=False)" in changed
    both = text.replace("self.features(self.größe(x))", "self.größe(F.max_pool2d(x, 3))")
    assert "nn.Conv2d(3, 8, 3, 1, (7), bias" in edit_python(both, 12, "größe", edits(padding="7"))
    assert "F.max_pool2d(x, 3, padding=7)" in edit_python(both, 12, "max_pool2d", edits(padding="7"))
    changed = edit_python(text, 12, "features.2", edits(stride="2"))
    assert "nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2))" in changed
    with pytest.raises(NotAppliedError, match="no call at line 12"):
        edit_python(text, 12, "features.1", edits(stride="2"))


@pytest.mark.parametrize(
    ("line", "settings", "why"),
    [
        (8, {"stride": "2"}, "has 2 calls that take stride"),
        (9, {"stride": "2"}, "no call at line 9 is known to take stride"),
        (4, {"stride": "2"}, "no call at line 4"),
    ],
)
def test_a_call_that_is_not_clear_is_left_alone(line, settings, why):
    with pytest.raises(NotAppliedError, match=why):
        edit_python(PYTHON, line, "unknown", edits(**settings))


def test_a_layer_in_place_is_copied_behind_the_layer_that_it_follows():
    without = POOL.replace('layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" }\n', "")
    changed = copy_layer(POOL, without, "relu")
    assert prototxt.parse(changed) == prototxt.parse(POOL)
    with pytest.raises(NotAppliedError, match="does not work in place"):
        copy_layer(POOL, POOL.replace('"pool"', '"other"'), "pool")
    with pytest.raises(NotAppliedError, match="no layer that makes 'pool'"):
        copy_layer(POOL, without.replace('name: "pool"', 'name: "renamed"'), "relu")


@pytest.mark.parametrize(("editor", "text", "line"), [(edit_prototxt, "cat", 1), (edit_cfg, "cfg", 1)])
def test_inputs_are_put_in_another_order(editor, text, line):
    texts = {
        "cat": 'layer { name: "c" type: "Concat" bottom: "a" bottom: "b" top: "c" }',
        "cfg": "[route]\nlayers = -1, -4\n",
    }
    changed = editor(texts[text], line, "c", [Edit(INPUT_ORDER, "2, 1")])
    wanted = {
        "cat": 'layer { name: "c" type: "Concat" bottom: "b" bottom: "a" top: "c" }',
        "cfg": "[route]\nlayers = -4,-1\n",
    }
    assert changed == wanted[text]
    with pytest.raises(NotAppliedError, match="2 inputs in the file and 3 in the net"):
        editor(texts[text], line, "c", [Edit(INPUT_ORDER, "2, 1, 3")])


def test_inputs_of_a_symbol_are_put_in_another_order():
    nodes = [
        *NODES[:1],
        {"op": "Concat", "name": "c", "inputs": [[0, 0, 0], [1, 0, 0]], "attrs": {"dim": "1"}},
    ]
    changed = edit_symbol(json.dumps({"nodes": nodes}), 0, "c", [Edit(INPUT_ORDER, "2, 1")])
    assert json.loads(changed)["nodes"][1] == nodes[1] | {"inputs": [[1, 0, 0], [0, 0, 0]]}


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

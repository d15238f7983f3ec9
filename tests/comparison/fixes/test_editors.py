"""Settings are changed where they stand, everything else in a file stays as it is."""

from __future__ import annotations

import ast
import configparser
import json

import pytest

from netweave.comparison import INPUT_ORDER, Edit
from netweave.comparison.fixes.cfg import edit_cfg
from netweave.comparison.fixes.mending import copy_layer, copy_node
from netweave.comparison.fixes.prototxt import edit_prototxt
from netweave.comparison.fixes.python_source import edit_python
from netweave.comparison.fixes.symbol_json import edit_symbol
from netweave.comparison.fixes.text import NotAppliedError
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

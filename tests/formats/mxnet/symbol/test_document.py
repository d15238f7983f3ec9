"""Symbol files: every spelling, and whatever is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netweave.errors import ReadError
from netweave.files.json_text import parse_json
from netweave.formats.mxnet.symbol.vertex import parse_document, upgraded
from tests.formats.mxnet.symbols import node, symbol, variable

AGES = json.loads((Path(__file__).parents[3] / "golden" / "mxnet_ages.json").read_text())["symbols"]


def parse(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return parse_document(parse_json(text.encode(), file="net.json"), file="net.json")


@pytest.mark.parametrize("age", AGES)
def test_every_age_is_the_same_net_once_upgraded(age):
    """The three spellings are those that MXNet 1.9.1 computes the same from."""
    new, old = upgraded(parse(AGES["from 1.0"])), upgraded(parse(AGES[age]))
    operators = [[n for n in net.nodes if not n.is_variable] for net in (new, old)]
    assert [(n.name, n.op, len(n.inputs)) for n in operators[1]] == [
        (n.name, n.op, len(n.inputs)) for n in operators[0]
    ]
    names = [
        [i.vertex.name for n in ops for i in n.inputs] for net, ops in zip((new, old), operators, strict=True)
    ]
    assert names[1] == names[0]
    visible = [[n.attributes for n in ops] for ops in operators]
    assert visible[1] == visible[0]


def test_inputs_come_before_the_nodes_that_read_them():
    nodes = [node("relu", "second", [2]), variable("data"), node("relu", "first", [1])]
    text = json.loads(symbol(nodes)) | {"heads": [[0, 0, 0]]}
    net = parse(text)
    assert [n.name for n in net.nodes] == ["data", "first", "second"]
    assert net.nodes[2].inputs == ((net.nodes[1], 0),)
    assert net.heads == ((net.nodes[2], 0),)


def test_a_long_chain_needs_no_deep_stack():
    nodes = [variable("data"), *(node("relu", f"n{i}", [i]) for i in range(5_000))]
    assert len(parse(symbol(nodes)).nodes) == 5_001


def test_hidden_keys_and_multipliers_move_as_in_mxnet():
    nodes = [
        variable("data", lr_mult="3"),
        variable("fc_weight"),
        variable("fc_bias"),
        node("FullyConnected", "fc", [0, 1, 2], num_hidden="2", ctx_group="g", weight_wd_mult="5"),
    ]
    net = upgraded(parse(symbol(nodes, version=800)))
    assert net.nodes[0].attributes == {"__lr_mult__": "3"}
    assert net.nodes[1].attributes == {"__wd_mult__": "5"}
    assert net.nodes[3].attributes == {"num_hidden": "2", "__ctx_group__": "g"}


@pytest.mark.parametrize(("version", "kept"), [(904, False), (905, True)])
def test_the_last_axis_of_argmax_meant_all_axes_before_0_9_5(version, kept):
    net = upgraded(parse(symbol([variable("x"), node("argmax", "a", [0], axis="-1")], version=version)))
    assert ("axis" in net.nodes[1].attributes) is kept


@pytest.mark.parametrize(("version", "count"), [(899, 5), (900, 3)])
def test_states_are_appended_before_0_9_only(version, count):
    nodes = [
        variable("x"),
        variable("bn_gamma"),
        variable("bn_beta"),
        node("BatchNorm", "bn", [0, 1, 2], eps="0.1"),
    ]
    net = upgraded(parse(symbol(nodes, version=version)))
    assert len(net.nodes[-1].inputs) == count
    if count == 5:
        states = [entry.vertex for entry in net.nodes[-1].inputs[3:]]
        assert [state.name for state in states] == ["bn_moving_mean", "bn_moving_var"]
        assert states[0].attributes == {"eps": "0.1"}


def test_param_beats_nothing_that_stands_under_attr():
    text = {
        "nodes": [
            {"op": "null", "name": "x", "param": {"a": "1", "b": "2"}, "attr": {"a": "3"}, "inputs": []}
        ]
    }
    assert parse({**text, "heads": [[0, 0]]}).nodes[0].attributes == {"a": "3", "b": "2"}


X = variable("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([], "net.json: is not an MXNet symbol"),
        ({"nodes": []}, "net.json: is not an MXNet symbol"),
        ({"nodes": [X], "heads": []}, "net.json:1: the net has no outputs"),
        ({"nodes": {}, "heads": [[0, 0]]}, r"'nodes' is \{\}, expected a list"),
        ({"nodes": [X], "heads": [[1, 0]]}, "net.json: heads: reads node 1, but there are only 1 nodes"),
        ({"nodes": [X], "heads": [[0]]}, r"'heads' has the entry \[0\], expected \[node, output\]"),
        ({"nodes": [X], "heads": [[0, -1]]}, r"'heads' has the entry \[0, -1\]"),
        ({"nodes": [X], "heads": [[0, True]]}, r"'heads' has the entry \[0, True\]"),
        ({"nodes": ["x"], "heads": [[0, 0]]}, "node 0 is str, expected an object"),
        ({"nodes": [{"op": "null", "inputs": []}], "heads": [[0, 0]]}, "expected a text 'name', found none"),
        ({"nodes": [X | {"op": 3}], "heads": [[0, 0]]}, "'op' is 3, expected a text"),
        ({"nodes": [X | {"attrs": {"a": 1}}], "heads": [[0, 0]]}, r"attrs\['a'\] is 1, expected a text"),
        ({"nodes": [X, X], "heads": [[0, 0]]}, "two variables are named 'x'"),
        (
            {"nodes": [variable("x" * 10_001)], "heads": [[0, 0]]},
            "'name' has 10,001 characters, expected at most 10,000",
        ),
        ({"nodes": [variable("")], "heads": [[0, 0]]}, "a variable has no name"),
        (
            {"nodes": [X], "heads": [[0, 0]], "attrs": {"mxnet_version": 3}},
            "'mxnet_version' is 3, expected a list",
        ),
        ({"nodes": [node("relu", "a", [0])], "heads": [[0, 0]]}, "net.json:1: node 'a' depends on itself"),
        (
            {"nodes": [node("relu", "a", [1]), node("relu", "b", [0])], "heads": [[0, 0]]},
            "node 'a' depends on itself",
        ),
        (
            {"nodes": [node("relu", "a", [9])], "heads": [[0, 0]]},
            "node 'a': reads node 9, but there are only 1",
        ),
    ],
    ids=range(19),
)
def test_what_is_no_symbol_is_named(text, message):
    with pytest.raises(ReadError, match=message):
        parse(text)

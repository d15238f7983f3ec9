"""Symbols: what MXNet 1.9.1 says about the same programs, and what must not be built."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from netweave import symbol as sym
from netweave.errors import ReadError, ShapeError, UsageError, WriteError
from netweave.formats.mxnet.symbol.vertex import VARIABLE, sorted_vertices
from tests.formats.mxnet.symbol.programs import PROGRAMS

ROOT = Path(__file__).parents[4]
EXPECTED = json.loads((ROOT / "tests" / "golden" / "mxnet_symbols.json").read_text())
ORACLES = os.environ.get("NETWEAVE_ORACLES", "")


def made(name):
    with sym.NameManager():
        return PROGRAMS[name].make(sym, sym)


def of_user(rows):
    """Attributes of the user; MXNet also copies an operator's settings to the variables it makes."""
    kept = {n: {k: v for k, v in row.items() if k.startswith("__")} for n, row in rows.items()}
    return {name: row for name, row in kept.items() if row}


@pytest.mark.parametrize("name", PROGRAMS)
def test_names_are_those_of_mxnet(name):
    net, expected = made(name), EXPECTED[name]
    assert net.list_arguments() == expected["arguments"]
    assert net.list_outputs() == expected["outputs"]
    assert net.list_auxiliary_states() == expected["states"]
    assert net.get_internals().list_outputs() == expected["internals"]
    assert of_user(net.attr_dict()) == expected["attributes"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_are_those_of_mxnet(name):
    found = made(name).infer_shape(**PROGRAMS[name].shapes)
    assert [list(map(list, shapes)) for shapes in found] == EXPECTED[name]["shapes"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_types_are_those_of_mxnet(name):
    given = PROGRAMS[name].types or dict.fromkeys(PROGRAMS[name].shapes, "float32")
    found = made(name).infer_type(**given)
    assert [[dtype.name for dtype in dtypes] for dtypes in found] == EXPECTED[name]["types"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_written_net_is_read_as_the_same(name, tmp_path):
    net = made(name)
    net.save(tmp_path / "net-symbol.json")
    read = sym.load(tmp_path / "net-symbol.json")
    assert read.tojson() == net.tojson() == sym.load_json(net.tojson()).tojson()
    assert (read.list_arguments(), read.list_outputs()) == (net.list_arguments(), net.list_outputs())


@pytest.mark.oracle
@pytest.mark.skipif(not ORACLES, reason="NETWEAVE_ORACLES names no environment with MXNet")
def test_mxnet_reads_what_was_written():
    texts = json.dumps({name: made(name).tojson() for name in PROGRAMS})
    command = [f"{ORACLES}/bin/python", "-m", "tests.oracles.mxnet_symbols", "--read"]
    done = subprocess.run(command, input=texts, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == EXPECTED


def test_a_symbol_makes_a_graph_that_runs():
    """Against the formula, in NumPy."""
    from netweave import run

    x = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    net = sym.Activation(x, act_type="sigmoid", name="out") * 2
    generator = np.random.default_rng(0)
    arrays = {"fc_weight": generator.normal(size=(3, 4)), "fc_bias": generator.normal(size=3)}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    data = generator.normal(size=(5, 4)).astype(np.float32)
    (found,) = run(net.graph(arrays=arrays, data=(5, 4)), {"data": data}).values()
    expected = 2 / (1 + np.exp(-(data @ arrays["fc_weight"].T + arrays["fc_bias"])))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_multipliers_and_first_values_reach_the_parameters():
    weight = sym.Variable("w", lr_mult=2, wd_mult=0.5, init=sym.Initializer("xavier", magnitude=2))
    graph = sym.FullyConnected(sym.Variable("data"), weight, num_hidden=3, name="fc").graph(data=(2, 4))
    entry = graph.parameters["w"]
    assert (entry.lr_mult, entry.decay_mult, entry.filler) == (2, 0.5, {"type": "xavier", "magnitude": 2})
    old = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc", weight_lr_mult=3)
    assert old.graph(data=(2, 4)).parameters["fc_weight"].lr_mult == 3
    assert old.graph(data=(2, 4)).parameters["fc_bias"].lr_mult == 1


def test_composing_changes_nothing_that_was_there():
    head = sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="head")
    before = head.tojson()
    both = head(x=sym.relu(sym.Variable("data"), name="relu"))
    assert head.tojson() == before
    assert both.list_arguments() == ["data", "head_weight", "head_bias"]
    assert head(sym.Variable("data")).list_arguments()[0] == "data"


def test_attributes_have_both_spellings():
    with sym.AttrScope(ctx_group="dev1"):
        net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    assert net.attr("ctx_group") == net.attr("__ctx_group__") == "dev1"
    assert net.attr("num_hidden") == "3"
    assert net.list_attr()["ctx_group"] == "dev1"
    layer = net.graph(data=(2, 4)).layers["fc"]
    assert layer.settings["__ctx_group__"] == "dev1"


def test_children_slices_and_iteration():
    x = sym.SliceChannel(sym.Variable("data"), num_outputs=3, name="cut")
    assert [part.list_outputs() for part in x] == [["cut_output0"], ["cut_output1"], ["cut_output2"]]
    assert x[1:].list_outputs() == ["cut_output1", "cut_output2"]
    assert (x[0] + x[1]).get_children().list_outputs() == ["cut_output0", "cut_output1"]
    assert sym.Variable("data").get_children() is None


def test_nodes_name_the_line_of_the_program():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3)
    origins = {vertex.origin.file for vertex in sorted_vertices(net.outputs)}
    assert origins == {__file__}
    assert {vertex.op for vertex in sorted_vertices(net.outputs)} == {VARIABLE, "FullyConnected"}


def test_ten_thousand_layers_in_a_row_are_sorted_without_recursion():
    net = sym.Variable("data")
    for _ in range(10_000):
        net = net + 1
    assert len(net.get_internals()) == 10_001


WRONG = {
    "operator": (lambda: sym.FullyConected, AttributeError, "no operator 'FullyConected'"),
    "method": (lambda: sym.Variable("x").fooo, AttributeError, "no attribute or operator 'fooo'"),
    "too many": (lambda: sym.relu(sym.Variable("a"), sym.Variable("b")), UsageError, "2 inputs .* at most 1"),
    "unknown input": (lambda: sym.relu(dat=sym.Variable("a")), UsageError, "no input 'dat'; it has: data"),
    "twice": (lambda: sym.relu(sym.Variable("a"), data=sym.Variable("b")), UsageError, "given twice"),
    "number": (lambda: sym.relu(3), UsageError, "an input is 3, expected a symbol"),
    "sign": (lambda: sym.Variable("a") + "b", UsageError, "plus: one operand is 'b'"),
    "several": (
        lambda: sym.relu(sym.SliceChannel(sym.Variable("a"), num_outputs=2)),
        UsageError,
        r"has 2 outputs, expected one; take one, as in symbol\[0\]",
    ),
    "truth": (lambda: bool(sym.Variable("a") == 3), UsageError, "a symbol cannot be used as a condition"),
    "name": (lambda: sym.Variable(""), UsageError, "has no name"),
    "dtype": (lambda: sym.Variable("a", dtype="float33"), UsageError, "dtype is 'float33', expected one of"),
    "attribute": (lambda: sym.relu(sym.Variable("a"), attr={"x": "1"}), UsageError, "such as '__x__'"),
    "group": (lambda: sym.Group([]), UsageError, "a group without symbols"),
    "output": (lambda: sym.Variable("a")["b_output"], UsageError, "no output is named 'b_output'"),
    "compose": (lambda: sym.Variable("a")(b=sym.Variable("c")), UsageError, "no variable 'b'"),
    "two variables": (
        lambda: (sym.Variable("a") + sym.Variable("a")).tojson(),
        UsageError,
        r"test_symbol.py:\d+: there is already a variable 'a', from .*test_symbol.py:\d+",
    ),
    "setting": (
        lambda: sym.FullyConnected(sym.Variable("a"), num_hidden="many").graph(a=(2, 3)),
        ReadError,
        r"test_symbol.py:\d+: layer 'fullyconnected\d+' \(FullyConnected\): 'num_hidden' is 'many'",
    ),
    "unknown setting": (
        lambda: sym.FullyConnected(sym.Variable("a"), num_hidden=3, num_hiden=4).graph(a=(2, 3)),
        ReadError,
        r"num_hiden='4' \(FullyConnected 'fully\w+' on line \d+; did you mean 'num_hidden'\?\)",
    ),
    "no sizes": (lambda: sym.relu(sym.Variable("a")).infer_shape(), ShapeError, "sizes of the input 'a'"),
    "sizes": (
        lambda: (sym.Variable("a") + sym.Variable("b")).infer_shape(a=(2, 3), b=(2, 4)),
        ShapeError,
        r"test_symbol.py:\d+: layer '_plus\d+'",
    ),
    "no variable": (
        lambda: sym.relu(sym.Variable("a")).infer_shape(b=(2, 3)),
        UsageError,
        "unknown variable 'b'",
    ),
    "file": (lambda: sym.relu(sym.Variable("a")).save("/no/such/folder/x"), WriteError, "cannot be written"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    build, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        build()

"""Every operator that is read, held against what MXNet 1.9.1 computes (tests/golden)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from netweave.files import Source
from netweave.formats.mxnet.reader import read
from netweave.formats.mxnet.symbol.operators import READERS
from netweave.graph import attributes_of, find_operator
from netweave.runtime.backends import prepare
from tests.formats.mxnet.cases import CASES
from tests.oracles import mxnet_params

GOLDEN = Path(__file__).parents[2] / "golden" / "mxnet_operators.npz"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as file:
        return dict(file)


def read_case(case, folder, *, text=None, input_shapes=True):
    net = folder / "op-symbol.json"
    net.write_text(text or case.symbol())
    stored = case.arrays(stored=True)
    if stored:
        content = mxnet_params.params({f"arg:{name}": array for name, array in stored.items()})
        (folder / "op-0001.params").write_bytes(content)
    given = case.arrays(stored=False)
    return read(Source(net, input_shapes={n: a.shape for n, a in given.items()} if input_shapes else {}))


def test_every_reader_has_a_case():
    tried = {case.op for case in CASES.values()}
    elsewhere = {"Custom"}  # registered by importing netweave.mxnet; tests/mxnet has it
    elsewhere |= {"WarpCTC", *(name for name in READERS if "ctc" in name.lower())}  # tests/graph/test_ctc.py
    elsewhere |= {name for name in READERS if re.match("_?(random|sample)_", name)}  # and these
    elsewhere |= {"normal", "uniform"}
    rows = {name: row for name, row in READERS.items() if name not in elsewhere}
    untried = {row.read: name for name, row in rows.items() if not name.startswith("_netweave_")}
    for name in tried:
        untried.pop(READERS[name].read, None)
    assert not untried


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_mxnet(name, golden, tmp_path):
    case = CASES[name]
    graph = read_case(case, tmp_path)
    given = case.arrays(stored=False)
    found = prepare(graph).run({value.name: given[value.name] for value in graph.inputs})
    for number, value in enumerate(graph.outputs):
        expected = golden[f"{name}/{number}"]
        assert found[value.name].shape == expected.shape
        np.testing.assert_allclose(found[value.name], expected, rtol=1e-4, atol=2e-5)
        check_shape(value, expected.shape)


def check_shape(value, expected):
    """Every size that the graph knows is that of the array."""
    for dim, size in zip(value.shape, expected, strict=True):
        assert not isinstance(dim, int) or dim == size, (value.shape, expected)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.gradient])
def test_gradients_are_those_of_mxnet(name, golden, tmp_path):
    case = CASES[name]
    graph = read_case(case, tmp_path)
    (node,) = graph.nodes
    inputs = [case.arrays(stored=False)[value.name] for value in node.inputs]
    entry = find_operator(node.op_type)
    outputs = entry.forward(inputs, attributes_of(node))
    gradient, *rest = entry.gradient(inputs, outputs, outputs, attributes_of(node))
    np.testing.assert_allclose(gradient, golden[f"{name}/gradient"], rtol=1e-4, atol=1e-6)
    assert rest == [None] * (len(inputs) - 1)

"""Symbol JSON of every age and ``.params`` of every version: what MXNet 1.9.1 reads in them.

The golden files are written by ``tests/oracles/mxnet_ages.py``, which also checks that MXNet reads what
``tests/oracles/mxnet_params.py`` writes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.formats.mxnet.ndarray import read_arrays
from tests.oracles import golden, mxnet_params, recipe

GOLDEN = Path(__file__).parent.parent / "golden"
RECORD = json.loads((GOLDEN / "mxnet_ages.json").read_text())
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("age", RECORD["symbols"])
def test_a_net_of_every_age_computes_what_mxnet_computes(tmp_path, age, version):
    stored = {key: recipe.weight(key, tuple(shape), role) for key, (shape, role) in RECORD["stored"].items()}
    (tmp_path / "net-symbol.json").write_text(json.dumps(RECORD["symbols"][age]))
    (tmp_path / "net-0001.params").write_bytes(mxnet_params.params(stored, version=version))
    [(name, (shape, kind))] = RECORD["inputs"].items()
    data = recipe.draw(name, tuple(shape), kind)
    graph = netweave.load(tmp_path / "net-symbol.json", input_shapes={name: data.shape})
    assert {layer.name for layer in graph.layers.values()} >= {"conv", "bn", "prelu", "softmax"}
    inputs = {value.name: np.zeros(len(data), np.float32) for value in graph.inputs}
    found = netweave.run(graph, {**inputs, name: data})
    [(output, tensor)] = RECORD["outputs"]
    assert golden.difference(found[output], tensor) < golden.TOLERANCE


def test_multipliers_of_the_user_are_found_in_every_age(tmp_path):
    for age, symbol in RECORD["symbols"].items():
        (tmp_path / "net-symbol.json").write_text(json.dumps(symbol))
        graph = netweave.load(tmp_path / "net-symbol.json", input_shapes={"data": (1, 3, 12, 11)})
        assert graph.parameters["conv_weight"].lr_mult == 0.5, age


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_of_every_type_as_mxnet_writes_them(version):
    found = read_arrays(GOLDEN / "mxnet_params" / f"v{version}.params")
    for name in DTYPES:
        expected = recipe.draw(f"arg:{name}", (2, 3), "integers 100").astype(name)
        assert found[name].dtype == name
        np.testing.assert_array_equal(found[name], expected)
    if version == 3:
        assert found["arg:scalar"].shape == ()
        assert found["arg:scalar"] == 1.5


@pytest.mark.parametrize("version", range(4))
def test_arrays_of_every_type_as_the_description_has_them(tmp_path, version):
    dtypes = DTYPES if version else DTYPES[:5]
    stored = {name: recipe.draw(f"arg:{name}", (2, 3), "integers 100").astype(name) for name in dtypes}
    (tmp_path / "x.params").write_bytes(mxnet_params.params(stored, version=version))
    found = read_arrays(tmp_path / "x.params")
    for name, array in stored.items():
        assert found[name].dtype == name
        np.testing.assert_array_equal(found[name], array)


def test_sparse_arrays_as_mxnet_writes_them():
    found = read_arrays(GOLDEN / "mxnet_params" / "sparse.params")
    values = recipe.draw("rows", (2, 3))
    rows = np.zeros((5, 3), np.float32)
    rows[[1, 3]] = values
    np.testing.assert_array_equal(found["arg:rows"], rows)
    csr = np.zeros((3, 3), np.float32)
    csr[[0, 0, 1, 2], [0, 2, 1, 0]] = values.ravel()[:4]
    np.testing.assert_array_equal(found["arg:csr"], csr)

"""Every operator of MXNet in small, also by its older names: the same shapes and values.

The golden file is written by ``tests/oracles/mxnet_ops.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netweave
from tests.oracles import golden, mxnet_params, recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_ops.json"
RECORDS = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("name", RECORDS)
def test_operator_computes_what_mxnet_computes(name, tmp_path):
    record = RECORDS[name]
    inputs = {name: recipe.draw(name, tuple(shape), kind) for name, (shape, kind) in record["inputs"].items()}
    stored = {key: recipe.weight(key, tuple(shape), role) for key, (shape, role) in record["stored"].items()}
    (tmp_path / "op-symbol.json").write_text(json.dumps(record["symbol"]))
    (tmp_path / "op-0000.params").write_bytes(mxnet_params.params(stored))
    graph = netweave.load(
        tmp_path / "op-symbol.json", input_shapes={name: array.shape for name, array in inputs.items()}
    )
    batch = next(iter(inputs.values())).shape[0]
    for value in graph.inputs:
        if value.name not in inputs:
            sizes = [size if isinstance(size, int) else batch for size in value.shape]
            inputs[value.name] = np.zeros(sizes, np.float32)
    found = netweave.run(graph, inputs)
    assert len(found) == len(record["outputs"])
    for array, (output, tensor) in zip(found.values(), record["outputs"], strict=True):
        assert golden.difference(array, tensor) < golden.TOLERANCE, output

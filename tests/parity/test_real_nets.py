"""The trained face-detection nets by both frameworks' files, and the other symbols of the corpus.

The golden file is written by ``tests/oracles/real_nets.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netweave
from tests.oracles import golden, mxnet_params, recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "real_nets.json"
RECORDS = json.loads(GOLDEN.read_text())
IDS = ["{} {}".format(record["files"][0], record["inputs"]["data"]) for record in RECORDS]


@pytest.mark.parametrize("record", RECORDS, ids=IDS)
def test_outputs_are_those_of_the_net_s_own_framework(corpus, tmp_path, record):
    files = [corpus / name for name in record["files"]]
    if len(files) == 1:
        files.append(tmp_path / "drawn.params")
        stored = record["stored"].items()
        files[1].write_bytes(
            mxnet_params.params(
                {key: recipe.weight(key, tuple(shape), role) for key, (shape, role) in stored}
            )
        )
    data = recipe.image("data", tuple(record["inputs"]["data"]), 1.0)
    graph = netweave.load(*files, input_shapes={"data": data.shape})
    inputs = {value.name: np.zeros(len(data), np.float32) for value in graph.inputs}
    found = netweave.run(graph, {**inputs, "data": data})
    for name, tensor in record["outputs"]:
        assert golden.difference(found[name], tensor) < golden.TOLERANCE, name

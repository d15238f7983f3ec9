"""Nets that TensorFlow 1's API wrote: frozen, as text, and as checkpoints; what they compute.

The files and the golden values are written by ``tests/oracles/tensorflow_nets.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netweave
from tests.oracles import golden, recipe

FOLDER = Path(__file__).parent.parent / "golden" / "tensorflow"
RECORDS = json.loads((FOLDER / "nets.json").read_text())
FILES = [
    (name, suffix)
    for name in RECORDS
    for suffix in ("pb", "pbtxt", "meta")
    if (FOLDER / f"{name}.{suffix}").exists()
]


def run(graph, record):
    inputs = {}
    for value in graph.inputs:
        shape, kind = record["inputs"].get(value.name, ([], "keep"))
        array = recipe.draw(value.name, tuple(shape), kind) if shape else np.ones((), np.float32)
        inputs[value.name] = array.astype(value.dtype.numpy())
    return netweave.run(graph, inputs)


@pytest.mark.parametrize(("name", "suffix"), FILES)
def test_outputs_are_those_of_tensorflow(name, suffix):
    record = RECORDS[name]
    graph = netweave.load(FOLDER / f"{name}.{suffix}")
    assert graph.loaded
    found = run(graph, record)
    for output, tensor in record["outputs"]:
        if output in found:
            assert golden.difference(found[output], tensor) < golden.TOLERANCE, output
    assert set(found) & {output for output, _ in record["outputs"]}

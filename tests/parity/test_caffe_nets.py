"""Every Caffe net of the corpus that OpenCV's importer runs: the same shapes and values, layer by layer.

The golden file is written by ``tests/oracles/caffe_nets.py``. OpenCV was given the net cut to its test phase;
here the file is read as it is, with weights in the form of its own generation.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netweave
from netweave.graph import BATCH
from tests.oracles import caffemodel, golden, recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "caffe_nets.json"
RECORDS = json.loads(GOLDEN.read_text())

LARGE = 2_000_000
"""Nets with more parameters are slow to draw weights for, and to run."""


def size(record: dict[str, Any]) -> int:
    """Return the number of stored elements."""
    return sum(prod(shape) for layer in record["weights"].values() for shape, _, _ in layer["blobs"])


NETS = [
    pytest.param(file, record, id=file)
    for record in RECORDS
    if "refused" not in record
    for file in record["files"]
]
RUNS = [
    pytest.param(*net.values, id=net.id, marks=[pytest.mark.slow] if size(net.values[1]) > LARGE else [])
    for net in NETS
]


@pytest.mark.parametrize(("file", "record"), NETS)
def test_shapes_are_those_of_opencv(corpus, file, record):
    graph = load(corpus / file, record)
    batch = next(iter(record["inputs"].values()))[0]
    values = graph.values()
    for name, (_, _, tensor) in versions(record).items():
        for size, expected in zip(values[name].shape, tensor["shape"], strict=True):
            if isinstance(size, int) or str(size) == BATCH:  # the number of detections is open
                assert (size if isinstance(size, int) else batch) == expected, name


@pytest.mark.parametrize(("file", "record"), RUNS)
def test_values_are_those_of_opencv(corpus, file, record, tmp_path):
    weights = tmp_path / "drawn.caffemodel"
    weights.write_bytes(caffemodel.drawn(record["weights"], generation=record["files"][file]))
    graph = load(corpus / file, record, weights)
    weights.unlink()
    expected = versions(record)
    found = netweave.run(graph, inputs_of(graph, record), taps=list(expected))
    gaps = {name: golden.difference(found[name], tensor) for name, (_, _, tensor) in expected.items()}
    assert {name: gap for name, gap in gaps.items() if gap > golden.TOLERANCE} == {}


def load(path: Path, record: dict[str, Any], weights: Path | None = None) -> netweave.Graph:
    """Read a net with the input sizes and the stages of its record."""
    sizes = {name: tuple(shape) for name, shape in record["inputs"].items()}
    return netweave.load(path, weights, input_shapes=sizes, stages=record["stages"])


def versions(record: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return the tensors of a record by the names they have here: the last version of a blob is plain."""
    last = {blob: number for number, (blob, _, _) in enumerate(record["tensors"])}
    return {
        blob if last[blob] == number else f"{blob}@{writer}": (blob, writer, tensor)
        for number, (blob, writer, tensor) in enumerate(record["tensors"])
    }


def inputs_of(graph: netweave.Graph, record: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the drawn inputs of a record, and zeros for the labels that a loss or an accuracy reads."""
    batch = next(iter(record["inputs"].values()))[0]
    scale = record.get("scale", recipe.IMAGE_SCALE)
    found = {name: recipe.image(name, tuple(shape), scale) for name, shape in record["inputs"].items()}
    for value in graph.inputs:
        if value.name not in found:
            sizes = [size if isinstance(size, int) else batch for size in value.shape]
            found[value.name] = np.zeros(sizes, value.dtype.numpy())
    return found

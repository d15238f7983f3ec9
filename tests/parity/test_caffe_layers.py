"""Every layer of Caffe that OpenCV's importer knows, in small: the same shapes and values.

The golden file is written by ``tests/oracles/caffe_layers.py``. Where OpenCV departs from Caffe, Netweave is
held against Caffe's formula; ``docs/parity.md`` has the verdicts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netweave
from tests.oracles import golden, recipe
from tests.oracles.caffemodel import caffemodel

GOLDEN = Path(__file__).parent.parent / "golden" / "caffe_layers.json"
RECORDS = {name: record for name, record in json.loads(GOLDEN.read_text()).items() if "text" in record}


def empty_window(x: np.ndarray) -> np.ndarray:
    """Maximum of windows of 2 every 3 (pooling_layer.cpp): one without elements keeps the lowest float."""
    rows, columns = range(0, x.shape[2] + 1, 3), range(0, x.shape[3] + 1, 3)
    lowest = np.full((*x.shape[:2], len(rows), len(columns)), np.finfo(np.float32).min)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            window = x[:, :, row : row + 2, column : column + 2]
            lowest[:, :, i, j] = window.max(axis=(2, 3), initial=np.finfo(np.float32).min)
    return lowest


def normalised_by_deviation(x: np.ndarray) -> np.ndarray:
    """mvn_layer.cpp: eps is added to the deviation, not to the variance."""
    return (x - x.mean((2, 3), keepdims=True)) / (x.std((2, 3), keepdims=True) + 0.5)


def with_k(x: np.ndarray) -> np.ndarray:
    """lrn_layer.cpp: the sum starts at k."""
    squares = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    return x * (2 + 0.2 / 3 * (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:])) ** -0.6


def transposed(x: np.ndarray) -> np.ndarray:
    """inner_product_layer.cpp: the weights are stored as inputs by outputs."""
    return x @ recipe.weight("op/0", (7, 5), "matrix") + recipe.weight("op/1", (5,), "bias")


def whole_sizes(x: np.ndarray) -> np.ndarray:
    """prior_box_layer.cpp: the sizes are whole numbers, 7 and 12 here; a cell is 12 by 80/6 pixels."""
    rows = []
    for i, j in np.ndindex(5, 6):
        for size in (7, (7 * 12) ** 0.5):
            x0, y0 = ((j + 0.5) * 80 / 6 - size / 2) / 80, ((i + 0.5) * 12 - size / 2) / 60
            rows.append((x0, y0, x0 + size / 80, y0 + size / 60))
    return np.stack([np.ravel(rows), np.full(240, 0.1)])[None]


OPENCV_DEPARTS = {
    "PriorBox of 1x4x5x6 and 1x3x60x80: min_size: 7.9 max_size: 12.6 variance: 0.1 clip: false": whole_sizes,
    "Pooling of 2x4x9x8: kernel_size: 2 stride: 3": empty_window,
    "MVN of 2x4x9x8: eps: 0.5": normalised_by_deviation,
    "LRN of 2x7x6x5: local_size: 3 alpha: 0.2 beta: 0.6 k: 2": with_k,
    "InnerProduct of 3x7: num_output: 5 transpose: true": transposed,
}


@pytest.mark.parametrize("name", RECORDS)
def test_layer_computes_what_opencv_or_caffe_computes(name, tmp_path):
    record = RECORDS[name]
    arrays = [recipe.weight(f"op/{i}", tuple(shape), role) for i, (shape, role) in enumerate(record["blobs"])]
    (tmp_path / "op.prototxt").write_text(record["text"])
    if arrays:
        weights = caffemodel([("op", record["kind"], arrays)], generation=2)
        (tmp_path / "op.caffemodel").write_bytes(weights)
    inputs = {name: recipe.draw(name, tuple(shape)) for name, shape in record["inputs"].items()}
    found = netweave.run(tmp_path / "op.prototxt", inputs)
    assert set(found) == {top for top, _ in record["outputs"]}
    if name in OPENCV_DEPARTS:
        np.testing.assert_allclose(found["op"], OPENCV_DEPARTS[name](inputs["a"]), rtol=1e-5, atol=1e-5)
    for top, tensor in record["outputs"]:
        agrees = golden.difference(found[top], tensor) < golden.TOLERANCE
        assert agrees is (name not in OPENCV_DEPARTS), top

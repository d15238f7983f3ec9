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
import onnx_ir as ir
import pytest

import netweave
from netweave.graph import BATCH
from tests.oracles import caffemodel, golden, recipe
from tests.time_limits import IN_CI

GOLDEN = Path(__file__).parent.parent / "golden" / "caffe_nets.json"
RECORDS = json.loads(GOLDEN.read_text())

LARGE = 2_000_000
"""Nets with more parameters are slow to draw weights for, and to run."""

LARGEST_IN_CI = 100_000_000
"""VGG-16 has more; its kinds of layers are those of AlexNet, and its shapes are looked at in any case."""


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


@pytest.mark.parametrize(
    ("file", "record"), [net for net in RUNS if not (IN_CI and size(net.values[1]) > LARGEST_IN_CI)]
)
def test_values_are_those_of_opencv(corpus, file, record, runs):
    graph = load(corpus / file, record, runs.weights(record, record["files"][file]))
    gaps = runs.gaps(record, graph)
    assert {name: gap for name, gap in gaps.items() if gap > golden.TOLERANCE} == {}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, memory_kept):
    return Runs(tmp_path_factory.mktemp("drawn"))


class Runs:
    """Drawn weights and runs of the latest record.

    The files of a record are versions of one net. Each of them is read with weights in the form of its own
    generation, and run unless it gave the very net that was run last, node by node and bit by bit.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record: dict[str, Any] | None = None
        self._nodes: list[str] = []
        self._arrays: dict[str, np.ndarray] = {}
        self._gaps: dict[str, float] = {}

    def weights(self, record: dict[str, Any], generation: int) -> Path:
        """Return the file of the drawn weights of a record."""
        if self._record is not record:
            self._record, self._nodes, self._arrays = record, [], {}
            for file in self._folder.iterdir():
                file.unlink()
        path = self._folder / f"{generation}.caffemodel"
        if not path.exists():
            path.write_bytes(caffemodel.drawn(record["weights"], generation=generation))
        return path

    def gaps(self, record: dict[str, Any], graph: netweave.Graph) -> dict[str, float]:
        """Return how far the values of a net are from those of a record, by name."""
        nodes = nodes_of(graph)
        arrays = {key: value.const_value.numpy() for key, value in graph.model.graph.initializers.items()}
        if nodes != self._nodes or not are_equal(arrays, self._arrays):
            expected = versions(record)
            found = netweave.run(graph, inputs_of(graph, record), taps=list(expected))
            self._gaps = {
                name: golden.difference(found[name], tensor) for name, (_, _, tensor) in expected.items()
            }
            self._nodes, self._arrays = nodes, arrays
        return self._gaps


def nodes_of(graph: netweave.Graph) -> list[str]:
    """Return all that is computed, and of what, without the places in the file that it comes from."""
    ends = [f"{value.name} {value.type} {value.shape}" for value in (*graph.inputs, *graph.outputs)]
    nodes = [
        f"{node.domain} {node.op_type} {[value and value.name for value in node.inputs]} "
        f"{[value.name for value in node.outputs]} {sorted(map(setting, node.attributes.values()))}"
        for node in graph.nodes
    ]
    return ends + nodes


def setting(attribute: ir.Attr) -> str:
    """Return an attribute's name and whole value; the text of a tensor would leave numbers out."""
    value = attribute.value
    return f"{attribute.name} {value.numpy().tolist() if isinstance(value, ir.TensorProtocol) else value}"


def are_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    """Return whether arrays have the same names, types and bits."""
    return first.keys() == second.keys() and all(
        array.dtype == second[name].dtype and np.array_equal(array, second[name])
        for name, array in first.items()
    )


def test_a_net_is_run_unless_it_was_just_run(tmp_path):
    """A net that differs in one setting, or in one number, is another one."""
    text = 'input: "data" input_dim: 1 input_dim: 1 input_dim: 4 input_dim: 4 layer { name: "ip" type: '
    text += '"InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } } layer { name: '
    text += '"relu" type: "ReLU" bottom: "ip" top: "ip" relu_param { negative_slope: 0.1 } }'
    weights = {"ip": {"kind": "innerproduct", "blobs": [[[2, 16], "filter", "a"], [[2], "bias", "b"]]}}
    other = {"ip": {"kind": "innerproduct", "blobs": [[[2, 16], "filter", "a"], [[2], "bias", "c"]]}}

    def read(name, text, weights):
        path = tmp_path / f"{name}.prototxt"
        path.write_text(text)
        path.with_suffix(".caffemodel").write_bytes(caffemodel.drawn(weights, generation=2))
        graph = netweave.load(path)
        return nodes_of(graph), {
            key: value.const_value.numpy() for key, value in graph.model.graph.initializers.items()
        }

    nodes, arrays = read("first", text, weights)
    again = read("again", f"# the same\n{text}", weights)
    assert (again[0] == nodes, are_equal(again[1], arrays)) == (True, True)
    assert read("slope", text.replace("0.1", "0.2"), weights)[0] != nodes
    assert not are_equal(read("bias", text, other)[1], arrays)


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

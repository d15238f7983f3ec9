"""Nets of OpenVINO compute what OpenVINO computes; an operator without a case fails here.

The nets and the golden values are written by ``tests/oracles/openvino_nets.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.formats.openvino.operators import READERS

FOLDER = Path(__file__).parent.parent / "golden" / "openvino"
GOLDEN = dict(np.load(FOLDER / "outputs.npz"))
OPERATORS = sorted(key.rpartition("/")[2] for key in GOLDEN if key.startswith("operators/out/"))

ELSEWHERE = {
    "AdaptiveMaxPool",
    "Acos",
    "Acosh",
    "Asin",
    "Atanh",
    "ConvertLike",
    "IsInf",
    "IsNaN",
    "PRelu",  # PReLU in files
    "Range",
    "ReduceLogicalAnd",
    "ReduceLogicalOr",
    "Relu",  # ReLU in files
    "ScatterElementsUpdate",
    "Softmax",  # SoftMax in files
    "SpaceToDepth",
}
"""Operators that no net here has: another name of one, or one of ONNX's with the same name and settings."""


def inputs_of(net: str) -> dict[str, np.ndarray]:
    return {key.rpartition("/")[2]: x for key, x in GOLDEN.items() if key.startswith(f"{net}/in/")}


@pytest.fixture(scope="module")
def operators() -> dict[str, np.ndarray]:
    graph = netweave.load(FOLDER / "operators.xml")
    return {name: np.asarray(x) for name, x in netweave.run(graph, inputs_of("operators")).items()}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_computes_what_openvino_computes(name, operators):
    expected = GOLDEN[f"operators/out/{name}"]
    assert operators[name].shape == expected.shape
    np.testing.assert_allclose(operators[name], expected, atol=1e-5, rtol=1e-5)


def test_every_operator_that_is_read_has_a_case():
    nets = [netweave.load(net) for net in FOLDER.glob("*.xml")]
    held = {layer.type for net in nets for layer in net.layers.values()}
    assert READERS.keys() - held - {"ShapeOf"} == ELSEWHERE


@pytest.mark.parametrize("net", ["small_f32", "small_f16", "small_int8"])
def test_every_precision_computes_what_openvino_computes(net):
    graph = netweave.load(FOLDER / f"{net}.xml")
    made = netweave.run(graph, inputs_of(net))["scores"]
    np.testing.assert_allclose(made, GOLDEN[f"{net}/out/scores"], atol=1e-5)


def test_a_net_takes_any_batch():
    graph = netweave.load(FOLDER / "small_f32.xml")
    image = np.concatenate([inputs_of("small_f32")["image"]] * 3)
    expected = np.concatenate([GOLDEN["small_f32/out/scores"]] * 3)
    np.testing.assert_allclose(netweave.run(graph, {"image": image})["scores"], expected, atol=1e-5)


def test_weights_of_eight_bits_are_their_real_numbers():
    graph = netweave.load(FOLDER / "small_int8.xml")
    arrays = {key: p.shape for key, p in graph.parameters.items()}
    assert arrays["stem"] == (6, 3, 3, 3)
    (value,) = [v for v in graph.model.graph.initializers.values() if v.name == "stem"]
    scales = np.abs(value.const_value.numpy()).reshape(6, -1).max(1, keepdims=True) / 127
    steps = value.const_value.numpy().reshape(6, -1) / scales
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-4)


@pytest.mark.parametrize("net", ["small_f32", "small_int8"])
def test_a_net_is_the_same_as_what_is_written_of_it(net, tmp_path):
    graph = netweave.load(FOLDER / f"{net}.xml")
    netweave.save(graph, tmp_path / "net.onnx")
    assert netweave.compare(graph, tmp_path / "net.onnx").equal

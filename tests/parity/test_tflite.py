"""Nets of TFLite compute what TensorFlow's interpreter computes; an operator without a case fails here.

The nets and the golden values are written by ``tests/oracles/tflite_nets.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.formats.tensorflow.lite.operators import LITE_READERS
from netweave.formats.tensorflow.lite.program import SCHEMA

FOLDER = Path(__file__).parent.parent / "golden" / "tflite"
GOLDEN = dict(np.load(FOLDER / "outputs.npz"))
OPERATORS = sorted(key.rpartition("/")[2] for key in GOLDEN if key.startswith("operators/out/"))

ELSEWHERE = {
    "BROADCAST_ARGS",  # the converter computes it
    "CALL",
    "CONV_3D_TRANSPOSE",
    "DEQUANTIZE",  # in the nets of other precisions
    "EMBEDDING_LOOKUP",
    "EXPAND_DIMS",
    "FAKE_QUANT",
    "IF",
    "L2_POOL_2D",
    "LOGICAL_NOT",
    "NON_MAX_SUPPRESSION_V4",
    "NON_MAX_SUPPRESSION_V5",
    "PRELU",
    "QUANTIZE",
    "RANK",
    "RELU_0_TO_1",
    "RELU_N1_TO_1",
    "SELECT",
    "SQUEEZE",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "WHERE",
}
"""Operators that no net here has: they are one of TensorFlow's rules, which its own tests hold, or a
formula that ``tests/formats/tensorflow/lite`` holds."""


def inputs_of(net: str) -> dict[str, np.ndarray]:
    return {key.rpartition("/")[2]: x for key, x in GOLDEN.items() if key.startswith(f"{net}/in/")}


def difference(net: str, name: str) -> float:
    """The largest difference of an output, in shares of its largest number, or of 1."""
    graph = netweave.load(FOLDER / f"{net}.tflite")
    made = np.asarray(netweave.run(graph, inputs_of(net))[name], np.float64)
    expected = GOLDEN[f"{net}/out/{name}"]
    assert made.shape == expected.shape
    return float(np.abs(made - expected).max() / max(1.0, np.abs(expected).max()))


@pytest.fixture(scope="module")
def operators() -> dict[str, np.ndarray]:
    graph = netweave.load(FOLDER / "operators.tflite")
    return {name: np.asarray(x) for name, x in netweave.run(graph, inputs_of("operators")).items()}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_computes_what_the_interpreter_computes(name, operators):
    expected = GOLDEN[f"operators/out/{name}"]
    assert operators[name].shape == expected.shape
    np.testing.assert_allclose(operators[name], expected, atol=1e-5, rtol=1e-5)


def test_every_operator_that_is_read_has_a_case():
    held = {layer.type for net in FOLDER.glob("*.tflite") for layer in netweave.load(net).layers.values()}
    plain = {"SHAPE", "PACK", "RANGE", "WHILE"}  # computed while the net is read
    assert LITE_READERS.keys() - held - plain == ELSEWHERE - held
    assert not ELSEWHERE & held - {"DEQUANTIZE", "QUANTIZE"}


@pytest.mark.parametrize("net", ["small_float", "small_float16", "lstm"])
def test_floats_are_those_of_the_interpreter(net):
    assert difference(net, "output_0") < 1e-5


def test_weights_of_eight_bits_are_their_real_numbers():
    # the interpreter also rounds what it multiplies them with to 8 bits, at every run
    assert difference("small_dynamic", "output_0") < 1 / 127


@pytest.mark.parametrize("net", ["small_int8", "small_uint8_io", "small_int8_per_tensor"])
def test_integers_are_those_of_the_interpreter_within_steps(net):
    # it rounds its sums once more in each layer, so that a step may differ that later layers carry on
    step = float(GOLDEN[f"{net}/step/output_0"]) or 1 / 256  # softmax always has this step
    assert difference(net, "output_0") <= 2 * step


def test_precisions_of_one_net_are_as_far_apart_as_the_interpreter_s():
    base = GOLDEN["small_float/out/output_0"]
    for net in ("small_float16", "small_dynamic", "small_int8"):
        made = netweave.run(netweave.load(FOLDER / f"{net}.tflite"), inputs_of(net))["output_0"]
        theirs = np.abs(GOLDEN[f"{net}/out/output_0"] - base).max()
        assert np.abs(np.asarray(made) - base).max() < theirs + 2 / 256


def test_the_schema_has_tensorflow_s_slots():
    slots = json.loads((FOLDER / "schema.json").read_text())
    ours = {name: {field.name: field.slot for field in fields} for name, fields in SCHEMA.tables.items()}
    assert ours.keys() <= slots.keys()
    for name, fields in ours.items():
        assert fields.items() <= slots[name].items(), name


@pytest.mark.parametrize("net", ["small_float", "small_int8", "lstm"])
def test_a_net_is_the_same_as_what_is_written_of_it(net, tmp_path):
    graph = netweave.load(FOLDER / f"{net}.tflite")
    netweave.save(graph, tmp_path / "net.onnx")
    assert netweave.compare(graph, tmp_path / "net.onnx").equal

"""TFLite files that no converter writes: rare operators by their formulas, and everything that is refused."""

from __future__ import annotations

import struct
from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, SourceError, UnsupportedError, UsageError
from tests.formats.tensorflow.lite.files import CODES, Writer, model, tensor

GOLDEN = Path(__file__).parents[3] / "golden" / "tflite"
X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(1, 2, 2, 3)
SIZES = [1, 2, 2, 3]


def load(folder: Path, content: bytes) -> netweave.Graph:
    path = folder / "net.tflite"
    path.write_bytes(content)
    return netweave.load(path)


def made(folder: Path, op: str, options=None, sizes=SIZES) -> np.ndarray:
    content = model(op, [tensor("x", SIZES), tensor("y", sizes)], [0], options=options)
    (found,) = netweave.run(load(folder, content), {"x": X}).values()
    return np.asarray(found)


@pytest.mark.parametrize(
    ("op", "formula"),
    [
        ("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1)),
        ("RELU_0_TO_1", lambda x: np.clip(x, 0, 1)),
        ("L2_NORMALIZATION", lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True))),
    ],
)
def test_operators_by_their_formulas(op, formula, tmp_path):
    np.testing.assert_allclose(made(tmp_path, op), formula(X), atol=1e-6)


def test_the_exact_gelu(tmp_path):
    expected = X * 0.5 * (1 + np.vectorize(erf)(X / sqrt(2)))
    np.testing.assert_allclose(made(tmp_path, "GELU", ("GeluOptions", {})), expected, atol=1e-5)


def test_the_root_of_mean_squares(tmp_path):
    window = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
    found = made(tmp_path, "L2_POOL_2D", ("Pool2DOptions", window), [1, 1, 1, 3])
    np.testing.assert_allclose(found, np.sqrt((X**2).mean((1, 2), keepdims=True)), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "function"),
    [("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1)), ("TANH", np.tanh), ("SIGN_BIT", None)],
)
def test_functions_that_are_joined_to_an_operator(name, function, tmp_path):
    options = ("AddOptions", {"fused_activation_function": name})
    content = model("ADD", [tensor("x", SIZES), tensor("y", SIZES)], [0, 0], options=options)
    (found,) = netweave.run(load(tmp_path, content), {"x": X}).values()
    expected = np.sign(2 * X) if function is None else function(2 * X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


OTHERS = {
    "EMBEDDING_LOOKUP": (np.array([1, 0], np.int32), None, lambda x: x[[1, 0]]),
    "EXPAND_DIMS": (np.array([2], np.int32), None, lambda x: x[:, :, None]),
    "SQUEEZE": (None, ("SqueezeOptions", {"squeeze_dims": [0]}), lambda x: x[0]),
    "PRELU": (np.array([0.5, 2, -1], np.float32), None, lambda x: np.where(x < 0, x * [0.5, 2, -1], x)),
    "FAKE_QUANT": (
        None,
        ("FakeQuantOptions", {"min": 0.0, "max": 2.5, "num_bits": 4}),
        lambda x: np.round(np.clip(x, 0, 2.5) * 6) / 6,
    ),
}
"""Operators that the converter writes in other words: a further input, options, and the formula."""


@pytest.mark.parametrize("op", OTHERS)
def test_operators_that_the_converter_writes_otherwise(op, tmp_path):
    more, options, formula = OTHERS[op]
    x = X if op != "EMBEDDING_LOOKUP" else X.reshape(4, 3)
    tensors = [tensor("x", [*x.shape])]
    if more is not None:
        tensors.append(tensor("more", [*more.shape], 1, "INT32" if more.dtype == np.int32 else "FLOAT32"))
    inputs = [1, 0] if op == "EMBEDDING_LOOKUP" else [*range(len(tensors))]
    buffers = [] if more is None else [more.tobytes()]
    content = model(op, [*tensors, tensor("y", [])], inputs, options=options, buffers=buffers)
    (found,) = netweave.run(load(tmp_path, content), {"x": x}).values()
    np.testing.assert_allclose(found, formula(x), atol=1e-6)


SCALED = {"scale": [0.5], "zero_point": [3]}


def test_integers_are_read_as_the_numbers_that_they_stand_for(tmp_path):
    weights = np.arange(-6, 6, dtype=np.int8).tobytes()
    tensors = [
        tensor("x", [1, 3]),
        tensor("w", [4, 3], 1, "INT8", quantization={"scale": [0.5, 1, 2, 4], "zero_point": [0, 0, 0, 1]}),
        tensor("y", [1, 4]),
    ]
    graph = load(tmp_path, model("FULLY_CONNECTED", tensors, [0, 1, -1], buffers=[weights]))
    integers = np.arange(-6, 6).reshape(4, 3) - np.array([[0], [0], [0], [1]])
    expected = integers * np.array([[0.5], [1], [2], [4]])
    (value,) = [v for v in graph.model.graph.initializers.values() if v.name == "w"]
    assert np.array_equal(value.const_value.numpy(), expected.astype(np.float32))
    x = np.array([[1, 2, 3]], np.float32)
    np.testing.assert_allclose(netweave.run(graph, {"x": x})["y"], x @ expected.T)


def test_four_bits_are_two_numbers_a_byte(tmp_path):
    tensors = [
        tensor("x", [1, 3]),
        tensor("w", [1, 3], 1, "INT4", quantization={"scale": [0.5], "zero_point": [0]}),
        tensor("y", [1, 1]),
    ]
    graph = load(tmp_path, model("FULLY_CONNECTED", tensors, [0, 1, -1], buffers=[bytes([0x8F, 0x07])]))
    x = np.eye(3, dtype=np.float32)
    found = [float(netweave.run(graph, {"x": row[None]})["y"][0, 0]) for row in x]
    assert found == [-0.5, -4.0, 3.5]


def test_what_is_computed_has_the_steps_of_its_scale(tmp_path):
    tensors = [tensor("x", SIZES), tensor("y", SIZES, kind="UINT8", quantization=SCALED)]
    found = netweave.run(load(tmp_path, model("QUANTIZE", tensors, [0])), {"x": X})["y"]
    np.testing.assert_allclose(found, np.clip(np.round(X / 0.5) + 3, 0, 255) * 0.5 - 1.5)


def test_an_input_of_integers_takes_real_numbers_and_says_so(tmp_path):
    tensors = [tensor("x", SIZES, kind="INT8", quantization=SCALED), tensor("y", SIZES)]
    graph = load(tmp_path, model("DEQUANTIZE", tensors, [0]))
    assert graph.notes == (
        "the input 'x' is INT8 in the file; here it takes the real numbers that these stand for",
    )
    np.testing.assert_allclose(netweave.run(graph, {"x": X})["y"], np.round(X / 0.5) * 0.5)


def weighted(buffer: bytes, shape: list[int] | None = None, **more) -> bytes:
    tensors = [tensor("x", SIZES), tensor("w", shape or [3], 1, **more), tensor("y", SIZES)]
    return model("ADD", tensors, [0, 1], buffers=[buffer])


FLOATS = struct.pack("<3f", 1, 2, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (weighted(FLOATS[:-1]), r"tensor 'w': stores 11 bytes, expected 12 for 3 FLOAT32"),
        (weighted(FLOATS, [2**20, 2**20]), "which no array can have"),
        (weighted(FLOATS, [-3]), "which no array can have"),
        (weighted(bytes(3), kind="INT8", quantization={"scale": [1, 2]}), r"2 scales for axis 0 of \[3\]"),
        (weighted(bytes(3), kind="INT8", quantization={"scale": [-1]}), "a scale that is negative"),
        (
            weighted(bytes(3), kind="INT8", quantization={"scale": [1], "zero_point": [300]}),
            "a zero point outside of int8",
        ),
        (
            weighted(bytes(3), kind="INT8", quantization={"scale": [1], "zero_point": [0, 0]}),
            "2 zero points for 1 scales",
        ),
        (model("ADD", [tensor("x", SIZES, 9)], [0]), "buffer 9 of 1"),
        (model("ADD", [tensor("x", SIZES), tensor("y", SIZES)], [0, 7]), "has tensor 7 of 2 as an operand"),
        (model("ADD", [tensor("x", SIZES), tensor("y", SIZES)], [0, -2]), "has tensor -2 of 2"),
        (model("ADD", [tensor("x", SIZES), tensor("x", SIZES)], [0, 1]), "depends on its own output"),
        (
            model("ADD", [tensor("x", SIZES), tensor("z", SIZES), tensor("y", SIZES)], [0, 1]),
            "tensor 'z' is read, but neither stored nor made",
        ),
        (Writer().file("Model", {"version": 2}), "has version 2 of the format, expected 3"),
        (Writer().file("Model", {"version": 3}), "contains no subgraph"),
        (
            model("SOFTMAX", [tensor("x", SIZES), tensor("y", SIZES)], []),
            "has 0 inputs, but number 1",
        ),
    ],
)
def test_damaged_files_are_refused(content, message, tmp_path):
    with pytest.raises(ReadError, match=message):
        load(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            model("TFLite_Detection_PostProcess", [tensor("x", SIZES), tensor("y", SIZES)], [0]),
            r"has one operator type that Netweave does not read: TFLite_Detection_PostProcess \('y'; boxes",
        ),
        (model("CALL_ONCE", [tensor("x", SIZES), tensor("y", SIZES)], [0]), "without resource variables"),
        (weighted(FLOATS, sparsity={"traversal_order": [0]}), "is stored as a sparse array"),
        (
            weighted(bytes(3), kind="INT8", quantization={"scale": [1], "details_type": 2}),
            "has scales for blocks",
        ),
        (weighted(FLOATS, kind="STRING"), "stores elements of type STRING"),
    ],
)
def test_what_is_not_read_is_named(content, message, tmp_path):
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path, content)


def test_weights_of_their_own_are_refused(tmp_path):
    (tmp_path / "net.tflite").write_bytes(model("RELU", [tensor("x", SIZES), tensor("y", SIZES)], [0]))
    with pytest.raises(UsageError, match="a TFLite file contains its weights"):
        netweave.load(tmp_path / "net.tflite", weights=tmp_path / "w.bin")


def test_data_behind_the_tables_is_read_where_it_lies(tmp_path):
    writer = Writer()
    tensors = [tensor("x", SIZES), tensor("w", [3], 1), tensor("y", SIZES)]
    graph = {
        "tensors": tensors, "inputs": [0], "outputs": [2], "operators": [{"inputs": [0, 1], "outputs": [2]}],
    }  # fmt: skip
    values = {
        "version": 3,
        "operator_codes": [{"version": 1}],
        "subgraphs": [graph],
        "buffers": [{}, {"offset": 4096, "size": 12}],
    }
    content = writer.file("Model", values)
    (found,) = netweave.run(load(tmp_path, content.ljust(4096, b"\0") + FLOATS), {"x": X}).values()
    np.testing.assert_allclose(found, X + np.array([1, 2, 3], np.float32))
    with pytest.raises(ReadError, match="is stored at bytes 4,096 to 4,108 of 4,100"):
        load(tmp_path, content.ljust(4096, b"\0") + FLOATS[:4])


def test_newer_operators_have_their_number_in_the_second_field(tmp_path):
    assert CODES["GELU"] > 127  # more than the first field can hold
    assert (
        load(tmp_path, model("GELU", [tensor("x", SIZES), tensor("y", SIZES)], [0])).layers["y"].type
        == "GELU"
    )


@pytest.mark.parametrize("name", ["small_int8", "small_float"])
def test_a_file_cut_short_anywhere_is_refused_in_one_line(name, tmp_path):
    content = (GOLDEN / f"{name}.tflite").read_bytes()
    path = tmp_path / "cut.tflite"
    for end in range(8, len(content), 211):
        path.write_bytes(content[:end])
        with pytest.raises(SourceError) as error:
            netweave.load(path)
        assert "report this as a bug" not in str(error.value)


def test_a_loop_of_too_many_steps_is_refused_soon(tmp_path):
    content = (GOLDEN / "lstm.tflite").read_bytes()
    bound = struct.pack("<i", 5)  # the number of steps, which two subgraphs and some buffers have
    changed = [
        content[:at] + struct.pack("<i", 10**6) + content[at + 4 :]
        for at in range(0, len(content) - 4, 4)
        if content[at : at + 4] == bound
    ]
    messages = []
    for each in changed:
        try:
            load(tmp_path, each)
        except SourceError as error:
            messages.append(str(error))
    assert any("operators after loops and functions are unrolled" in message for message in messages)

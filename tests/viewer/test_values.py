"""Values in the document of the page: maps as bytes, and stored arrays that differ by channel."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netweave
from netweave.comparison.explain.isolated import tensor_values
from netweave.viewer import comparison_document, document_rows
from netweave.viewer.values import MAX_CHANNELS, by_cell, channel_differences, values_json
from tests.viewer import nets


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.integers(1, 70), error=st.floats(1e-6, 10))
def test_the_bytes_of_a_map_are_its_values_to_a_part_in_254_of_the_range(seed, size, error):
    generator = np.random.default_rng(seed)
    a = generator.standard_normal((2, 3, size, size)).astype(np.float32)
    b = a + np.float32(error) * generator.standard_normal(a.shape).astype(np.float32)
    values = tensor_values(a, b, name_a="a", name_b="b")
    found = values_json(values)
    low, high = found["range"]
    most = found["difference"]

    def decoded(name, least, highest):
        flat = np.frombuffer(base64.b64decode(found[name]), np.uint8).astype(np.float64)
        assert flat.max() <= 254
        return (flat / 254 * (highest - least) + least).reshape(found["size"])

    shown = 1e-5 * max(abs(low), abs(high))  # the range has six digits
    np.testing.assert_allclose(decoded("a", low, high), values.map_a, atol=(high - low) / 500 + shown)
    np.testing.assert_allclose(decoded("b", low, high), values.map_b, atol=(high - low) / 500 + shown)
    wanted = values.map_a.astype(np.float64) - values.map_b
    # however small the difference is beside the values, its map has it
    np.testing.assert_allclose(decoded("a_minus_b", -most, most), wanted, atol=most / 240)


def test_what_is_not_finite_has_a_byte_of_its_own():
    a = np.ones((1, 1, 2, 2), np.float32)
    b = np.array([[[[1, np.nan], [np.inf, 2]]]], np.float32)
    found = values_json(tensor_values(a, b, name_a="a", name_b="b"))
    assert list(base64.b64decode(found["b"])) == [0, 255, 255, 254]
    assert found["at_place"] == [1.0, "nan"]


def test_many_channels_share_cells_that_show_the_largest():
    errors = np.random.default_rng(0).random(3 * MAX_CHANNELS + 5)
    cells = by_cell(errors.tolist())
    assert len(cells) <= MAX_CHANNELS
    assert max(cells) == pytest.approx(errors.max(), rel=1e-5)
    assert cells[0] == pytest.approx(errors[:4].max(), rel=1e-5)


def test_stored_arrays_are_compared_by_output_channel_also_when_transposed():
    generator = np.random.default_rng(1)
    x = generator.standard_normal((4, 6)).astype(np.float32)
    y = x.copy()
    y[2, 3] += 0.5
    found = channel_differences(x, y.T)
    assert found.transposed
    assert [value > 0 for value in found.channels] == [False, False, True, False]
    assert found.channels[2] == pytest.approx(0.5 / max(abs(x).max(), abs(y).max()), rel=1e-4)
    assert channel_differences(x, x.copy()).channels == ()


def test_the_document_says_which_channel_of_which_layer_has_other_weights(tmp_path):
    import onnx

    nets.write_example(tmp_path)
    graph = netweave.load(tmp_path / "leaves.prototxt")
    netweave.save(graph, tmp_path / "port.onnx")
    model = onnx.load(tmp_path / "port.onnx")
    (weights,) = (x for x in model.graph.initializer if list(x.dims) == [32, 16, 3, 3])
    array = onnx.numpy_helper.to_array(weights).copy()
    array[7] *= 1.5
    weights.CopyFrom(onnx.numpy_helper.from_array(array, weights.name))
    onnx.save(model, tmp_path / "port.onnx")
    comparison = netweave.compare(tmp_path / "leaves.prototxt", tmp_path / "port.onnx", keep_values=True)
    document = document_rows(comparison_document(comparison))
    layers = document["nets"][0]["layers"]
    rows = [
        (layers[group["layers"][0][0]]["name"], row)
        for group in document["groups"]
        for row in group["weights"]
        if row["channels"]
    ]
    ((name, row),) = [(name, row) for name, row in rows if max(row["channels"]) > 1e-3]
    assert name == "conv2"
    assert int(np.argmax(row["channels"])) == 7
    assert sum(value > 1e-3 for value in row["channels"]) == 1
    place = next(
        group["values"]["place"]
        for group in document["groups"]
        if group["layers"][0] and layers[group["layers"][0][0]]["name"] == name
    )
    assert place[1] == 7

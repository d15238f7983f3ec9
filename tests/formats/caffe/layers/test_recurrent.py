"""RNN and LSTM: against ONNX's where no sequence ends, and against themselves cut at the ends."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from netweave.errors import ReadError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored

T, N, D, H = 6, 3, 4, 5
X = normal(T, N, D)


def onnx_recurrent(kind, weight, recurrence, bias):
    """Run ONNX's LSTM (gates i, o, f, c) or RNN over X from zero states."""
    names = ["X", "W", "R", "B"]
    node = helper.make_node(kind, names, ["Y"], hidden_size=H)
    arrays = dict(zip(names[1:], (weight[None], recurrence[None], np.r_[bias, 0 * bias][None]), strict=True))
    graph = helper.make_graph(
        [node],
        kind,
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": X})
    return y[:, 0]


def whole_sequences():
    cont = np.ones((T, N), np.float32)
    cont[0] = 0
    return cont


def to_onnx_gates(array):
    """From i, f, o, g to i, o, f, c."""
    i, f, o, g = np.split(array, 4)
    return np.concatenate([i, o, f, g])


def test_lstm_is_that_of_onnx_over_whole_sequences(tmp_path):
    text = inputs(x=X.shape, cont=(T, N)) + layer(
        "LSTM", f"recurrent_param {{ num_output: {H} }}", bottoms="x cont"
    )
    graph = load(tmp_path, text)
    weight, bias, recurrence = (stored(graph)[f"LSTM/{index}"] for index in range(3))
    assert (weight.shape, bias.shape, recurrence.shape) == ((4 * H, D), (4 * H,), (4 * H, H))
    expected = onnx_recurrent("LSTM", *map(to_onnx_gates, (weight, recurrence, bias)))
    np.testing.assert_allclose(run(graph, x=X, cont=whole_sequences())["y"], expected, rtol=1e-4, atol=1e-6)


def test_rnn_is_that_of_onnx_with_a_layer_behind(tmp_path):
    text = inputs(x=X.shape, cont=(T, N)) + layer(
        "RNN", f"recurrent_param {{ num_output: {H} }}", bottoms="x cont"
    )
    graph = load(tmp_path, text)
    weight, bias, recurrence, out, out_bias = (stored(graph)[f"RNN/{index}"] for index in range(5))
    hidden = onnx_recurrent("RNN", weight, recurrence, bias)
    expected = np.tanh(hidden @ out.T + out_bias)
    np.testing.assert_allclose(run(graph, x=X, cont=whole_sequences())["y"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_cont_cuts_sequences(tmp_path, kind):
    text = inputs(x=X.shape, cont=(T, N)) + layer(
        kind, f"recurrent_param {{ num_output: {H} }}", bottoms="x cont"
    )
    graph, cont = load(tmp_path, text), whole_sequences()
    cont[2, 0] = cont[4, 1] = 0
    whole = run(graph, x=X, cont=cont)["y"]
    for begin, row in ((2, 0), (4, 1)):
        tail = run(graph, x=X[begin:], cont=cont[begin:])["y"]
        np.testing.assert_allclose(whole[begin:, row], tail[:, row], rtol=1e-5, atol=1e-6)
        assert np.abs(whole[begin:, 2] - tail[:, 2]).max() > 1e-3


@pytest.mark.parametrize(("kind", "num_states"), [("LSTM", 2), ("RNN", 1)])
def test_exposed_states_continue_a_sequence_and_static_inputs_reach_every_step(tmp_path, kind, num_states):
    states = [f"s{index}" for index in range(num_states)]
    shapes = {"x": (3, N, D), "cont": (3, N), "fixed": (N, 2, 2)} | dict.fromkeys(states, (1, N, H))
    text = inputs(**shapes) + layer(
        kind,
        f"recurrent_param {{ num_output: {H} expose_hidden: true }}",
        bottoms=" ".join(shapes),
        tops=" ".join(["y", *(f"{name}_last" for name in states)]),
    )
    graph, fixed = load(tmp_path, text), normal(N, 2, 2)
    begin = {name: np.zeros((1, N, H)) for name in states}
    first = run(graph, x=X[:3], cont=np.ones((3, N)), fixed=fixed, **begin)
    middle = {name: first[f"{name}_last"] for name in states}
    second = run(graph, x=X[3:], cont=np.ones((3, N)), fixed=fixed, **middle)
    whole_graph = load(tmp_path, text)
    whole = run(whole_graph, x=X, cont=np.ones((T, N)), fixed=fixed, **begin)
    np.testing.assert_allclose(np.concatenate([first["y"], second["y"]]), whole["y"], rtol=1e-5, atol=1e-6)
    other = run(graph, x=X[:3], cont=np.ones((3, N)), fixed=fixed + 1, **begin)
    assert (np.abs(other["y"] - first["y"]).max(axis=(1, 2)) > 1e-3).all()
    assert stored(graph)[f"{kind}/2"].shape == ((4 * H if kind == "LSTM" else H), 4)


def test_wrong_ends_are_named(tmp_path):
    text = inputs(x=X.shape, cont=(T, N)) + layer(
        "LSTM", "recurrent_param { num_output: 2 expose_hidden: true }", bottoms="x cont"
    )
    with pytest.raises(ReadError, match="has 2 bottoms and 1 tops, expected x, cont and perhaps x_static"):
        load(tmp_path, text)

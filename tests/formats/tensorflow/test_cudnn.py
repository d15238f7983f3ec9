"""Recurrent layers of cuDNN against PyTorch, whose weights have cuDNN's gates in cuDNN's order."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import UnsupportedError

torch = pytest.importorskip("torch")

STEPS, BATCH, INPUTS, UNITS = 4, 2, 3, 5


def constant(name: str, array: np.ndarray) -> str:
    dims = " ".join(f"dim {{ size: {size} }}" for size in array.shape)
    kind, field = ("DT_FLOAT", "float_val") if array.dtype == np.float32 else ("DT_INT32", "int_val")
    values = " ".join(f"{field}: {number!r}" for number in array.reshape(-1).tolist())
    return f"""node {{ name: "{name}" op: "Const"
    attr {{ key: "dtype" value {{ type: {kind} }} }} attr {{ key: "value"
    value {{ tensor {{ dtype: {kind} tensor_shape {{ {dims} }} {values} }} }} }} }}"""


def net(folder, kind: str, shape: tuple[int, ...], arrays: dict[str, np.ndarray], **words: str):
    """Write a graph with one layer as text, and return its path."""
    dims = " ".join(f"dim {{ size: {size} }}" for size in shape)
    attributes = " ".join(f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in words.items())
    read = " ".join(f'input: "{name}"' for name in ("x", *arrays))
    path = folder / "graph.pbtxt"
    path.write_text(
        f"""node {{ name: "x" op: "Placeholder"
        attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} attr {{ key: "shape"
        value {{ shape {{ {dims} }} }} }} }}"""
        + "\n".join(constant(name, array) for name, array in arrays.items())
        + f'node {{ name: "rnn" op: "{kind}" {read} {attributes} }}'
        + 'node { name: "y" op: "Identity" input: "rnn" } node { name: "h" op: "Identity" input: "rnn:1" }'
    )
    return path


def packed(module) -> np.ndarray:
    """Return the arrays of a module of torch as cuDNN has them: all matrices, then all biases."""
    named = dict(module.named_parameters())
    order = [*(name for name in named if "weight" in name), *(name for name in named if "bias" in name)]
    return np.concatenate([named[name].detach().numpy().reshape(-1) for name in order])


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize(("layers", "ways"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("kind", ["CudnnRNNV2", "CudnnRNNV3"])
def test_layers_compute_what_torch_computes(kind, mode, layers, ways, tmp_path):
    torch.manual_seed(0)
    make = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(mode, torch.nn.RNN)
    more = {"nonlinearity": mode.removeprefix("rnn_")} if mode.startswith("rnn") else {}
    module = make(INPUTS, UNITS, num_layers=layers, bidirectional=ways == 2, **more)
    x, first = torch.randn(STEPS, BATCH, INPUTS), torch.randn(layers * ways, BATCH, UNITS)
    cell = torch.randn(layers * ways, BATCH, UNITS)
    with torch.no_grad():
        y, last = module(x, (first, cell) if mode == "lstm" else first)
    by_time = kind == "CudnnRNNV2"
    turn = (lambda a: a) if by_time else (lambda a: np.ascontiguousarray(a.transpose(1, 0, 2)))
    arrays = {"first": turn(first.numpy()), "cell": turn(cell.numpy()), "params": packed(module)}
    words = {"rnn_mode": f's: "{mode}"', "direction": f's: "{"bi" if ways == 2 else "uni"}directional"'}
    if not by_time:
        arrays["lengths"] = np.full(BATCH, STEPS, np.int32)
        words["time_major"] = "b: false"
    given = turn(x.numpy())
    graph = netweave.load(net(tmp_path, kind, given.shape, arrays, **words))
    made = netweave.run(graph, {"x": given})
    np.testing.assert_allclose(made["y"], turn(y.numpy()), atol=2e-6)
    expected = (last[0] if mode == "lstm" else last).numpy()
    np.testing.assert_allclose(made["h"], turn(expected), atol=2e-6)


def test_examples_of_different_lengths(tmp_path):
    torch.manual_seed(0)
    module = torch.nn.LSTM(INPUTS, UNITS, bidirectional=True)
    x, lengths = torch.randn(STEPS, BATCH, INPUTS), np.array([4, 2], np.int32)
    with torch.no_grad():
        rows = torch.nn.utils.rnn.pack_padded_sequence(x, torch.from_numpy(lengths).long())
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(module(rows)[0])
    zeros = np.zeros((2, BATCH, UNITS), np.float32)
    arrays = {"first": zeros, "cell": zeros, "params": packed(module), "lengths": lengths}
    path = net(tmp_path, "CudnnRNNV3", tuple(x.shape), arrays, direction='s: "bidirectional"')
    made = netweave.run(netweave.load(path), {"x": x.numpy()})
    np.testing.assert_allclose(made["y"], y.numpy(), atol=2e-6)


@pytest.mark.parametrize(
    ("word", "value", "message"),
    [
        ("rnn_mode", 's: "mlp"', "rnn_mode='mlp' is not supported, only lstm"),
        ("input_mode", 's: "skip_input"', "skip_input"),
        ("num_proj", "i: 3", "projections"),
    ],
)
def test_what_is_not_read_is_refused(word, value, message, tmp_path):
    state = np.zeros((1, BATCH, UNITS), np.float32)
    arrays = {"first": state, "cell": state, "params": np.zeros(200, np.float32)}
    op = "CudnnRNN"
    if word == "num_proj":  # an attribute of the third version alone
        op, arrays = "CudnnRNNV3", {**arrays, "lengths": np.full(BATCH, STEPS, np.int32)}
    path = net(tmp_path, op, (STEPS, BATCH, INPUTS), arrays, **{word: value})
    with pytest.raises(UnsupportedError, match=message):
        netweave.load(path)

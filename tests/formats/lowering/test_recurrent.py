"""Recurrent weights brought into ONNX's order: PyTorch's modules and the formula of an LSTM are the oracles.

T steps, N examples, F features, H hidden units.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from netweave.formats.lowering.recurrent import (
    CUDNN_CELLS,
    GATE_ORDERS,
    GateLayouts,
    PackedWeights,
    RecurrentCell,
    gate_permutation,
    merge_directions,
    recurrent_node,
    reorder_gates,
    stacked_layers,
    without_state_bias,
)
from netweave.graph.parameters import apply_layout
from tests.formats.lowering.contexts import OneLayer

T, N, F, H = 4, 3, 5, 6

MODULES = {
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
    "rnn_tanh": torch.nn.RNN,
    "rnn_relu": lambda *sizes, **settings: torch.nn.RNN(*sizes, nonlinearity="relu", **settings),
}


@pytest.mark.parametrize(
    ("mode", "num_layers", "num_directions", "has_states"),
    list(itertools.product(MODULES, (1, 2), (1, 2), (False, True))),
)
def test_packed_weights_are_those_of_cudnn(
    mode: str, num_layers: int, num_directions: int, has_states: bool
) -> None:
    torch.manual_seed(0)
    module = MODULES[mode](F, H, num_layers=num_layers, bidirectional=num_directions == 2)
    names = [name for name, _ in module.named_parameters()]
    flat = [p.detach().numpy().ravel() for _, p in module.named_parameters()]
    # cuDNN has all matrices, then all biases, each in PyTorch's order of layers and directions.
    packed = np.concatenate([flat[names.index(name)] for name in sorted(names, key=lambda n: "bias" in n)])
    cell = CUDNN_CELLS[mode]
    inputs = {"x": np.random.default_rng(1).standard_normal((T, N, F)).astype(np.float32)}
    for number in range(cell.num_states if has_states else 0):
        state = np.random.default_rng(2 + number).standard_normal((num_layers * num_directions, N, H))
        inputs[f"state{number}"] = state.astype(np.float32)
    layouts = PackedWeights(cell.op_type, F, H, num_layers, num_directions)
    ctx = OneLayer(**inputs)
    x, *states = ctx.inputs.values()

    weights = [
        [ctx.constant(apply_layout(packed, layout)) for layout in of_layer] for of_layer in layouts.layouts()
    ]
    y, last = stacked_layers(
        ctx,
        cell,
        x,
        weights,
        hidden_size=H,
        num_directions=num_directions,
        states=states or [None] * cell.num_states,
    )

    assert layouts.size == packed.size
    given = [torch.from_numpy(array) for array in inputs.values()]
    hidden = tuple(given[1:]) if cell.num_states == 2 else given[1] if has_states else None
    expected, ends = module(given[0], hidden) if has_states else module(given[0])
    wanted = [expected, *(ends if cell.num_states == 2 else [ends])]
    for array, tensor in zip(ctx.run([y, *last]), wanted, strict=True):
        np.testing.assert_allclose(array, tensor.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("framework", ["cudnn", "keras", "onnx"])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_gates_of_an_lstm_are_brought_into_onnx_order(framework: str, transposed: bool) -> None:
    draw = np.random.default_rng(3)
    kernel, recurrent, bias = (
        {gate: draw.standard_normal(sizes).astype(np.float32) for gate in "ifco"}
        for sizes in ((H, F), (H, H), (H,))
    )
    x = draw.standard_normal((T, N, F)).astype(np.float32)
    hidden = cell = np.zeros((N, H))
    for step in x:
        raw = {g: step @ kernel[g].T + hidden @ recurrent[g].T + bias[g] for g in "ifco"}
        i, f, o = (1 / (1 + np.exp(-raw[g])) for g in "ifo")
        cell = f * cell + i * np.tanh(raw["c"])
        hidden = o * np.tanh(cell)

    order = GATE_ORDERS[framework]["LSTM"]
    layouts = GateLayouts("LSTM", framework, H)
    ctx = OneLayer(x=x)
    matrices = []
    for by_gate, columns in ((kernel, F), (recurrent, H)):
        stored = np.concatenate([by_gate[gate] for gate in order])
        stored = stored.T if transposed else stored
        matrices.append(ctx.constant(apply_layout(stored, layouts.matrix(columns, transposed=transposed))))
    own = ctx.constant(apply_layout(np.concatenate([bias[gate] for gate in order]), layouts.bias()))
    both = without_state_bias(ctx, [own], layouts.num_rows)
    sequence, last = recurrent_node(ctx, RecurrentCell("LSTM"), ctx.x, (*matrices, both), hidden_size=H)
    steps = merge_directions(ctx, sequence, H, batch_first=True)

    by_batch, hidden_end, cell_end = ctx.run([steps, *last])
    np.testing.assert_allclose(hidden_end[0], hidden, atol=1e-5)
    np.testing.assert_allclose(cell_end[0], cell, atol=1e-5)
    np.testing.assert_allclose(by_batch[:, -1], hidden, atol=1e-5)


def test_both_biases_of_one_array_are_brought_into_onnx_order() -> None:
    stored = np.array([[b * 10 + gate for gate in range(3) for _ in range(H)] for b in (0, 1)])

    made = apply_layout(stored, GateLayouts("GRU", "cudnn", H).bias(2)).reshape(2, 3, H)

    assert made[:, :, 0].tolist() == [[1, 0, 2], [11, 10, 12]]


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.permutations(["onnx", "cudnn", "keras"], 2)), ids="-".join
)
@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_orders_undo_each_other(op_type: str, source: str, target: str) -> None:
    letters = np.array(list(GATE_ORDERS[source][op_type]))

    there = reorder_gates(letters, op_type, source=source, target=target)

    assert "".join(there) == GATE_ORDERS[target][op_type]
    assert (reorder_gates(there, op_type, source=target, target=source) == letters).all()
    assert sorted(gate_permutation(op_type, source=source, target=target)) == [*range(len(letters))]


def test_attributes_that_are_onnx_defaults_are_left_out() -> None:
    relu = RecurrentCell("RNN", activations=("Relu",))
    usual = RecurrentCell("LSTM", activations=("Sigmoid", "Tanh", "Tanh"))

    assert relu.attributes(H, 2) == {
        "hidden_size": H,
        "direction": "bidirectional",
        "activations": ["Relu", "Relu"],
    }
    assert usual.attributes(H, 1) == {"hidden_size": H}

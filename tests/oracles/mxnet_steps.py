"""Further programs of ``mxnet_api``: fifty steps in 64 bits, and the cells of Gluon."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracles.mxnet_api import BATCH, STEPS, Arrays, numbers, program


def _svm_l1(mx: Any) -> Any:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc1")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu"), num_hidden=3, name="fc2")
    return mx.sym.SVMOutput(x, use_linear=True, regularization_coefficient=0.5, name="svm")


def _shared(mx: Any) -> Any:
    weight, bias = mx.sym.Variable("w"), mx.sym.Variable("b")
    x = mx.sym.Variable("data")
    for number in range(3):
        x = mx.sym.FullyConnected(x, weight, bias, num_hidden=5, name=f"fc{number}")
        x = mx.sym.Activation(x, act_type="tanh")
    return mx.sym.SoftmaxOutput(x, name="softmax")


DOUBLE = {
    "svm_l1": (_svm_l1, "sgd", {"learning_rate": 0.01, "momentum": 0.9}),
    "shared": (_shared, "sgd", {"learning_rate": 0.05, "momentum": 0.9}),
    "lbsgd": (_shared, "lbsgd", {"learning_rate": 0.05, "momentum": 0.9, "warmup_strategy": "lars"}),
}
"""What parts from MXNet within fifty steps in 32 bits, if only by rounding."""


@program
def in_64_bits(mx: Any) -> Arrays:
    """Fifty steps of an executor and an optimizer in 64 bits; how far each array moved."""
    found = {}
    for kind, (make, optimizer, settings) in DOUBLE.items():
        symbol = make(mx)
        names, label = symbol.list_arguments(), symbol.list_arguments()[-1]
        types = dict.fromkeys(names, "float64")
        executor = symbol.simple_bind(mx.cpu(), type_dict=types, data=(BATCH, 5))
        update = mx.optimizer.get_updater(mx.optimizer.create(optimizer, rescale_grad=1 / BATCH, **settings))
        learnt = [name for name in names if name not in {"data", label}]
        first = {name: numbers(*executor.arg_dict[name].shape, seed=k) for k, name in enumerate(learnt, 1)}
        for name, array in first.items():
            executor.arg_dict[name][:] = mx.nd.array(array, dtype="float64")
        executor.arg_dict[label][:] = mx.nd.array(np.arange(BATCH) % 3, dtype="float64")
        for step in range(STEPS):
            executor.arg_dict["data"][:] = mx.nd.array(
                numbers(BATCH, 5, seed=100 + step % 7), dtype="float64"
            )
            executor.forward(is_train=True)
            executor.backward()
            for number, name in enumerate(learnt):
                update(number, executor.grad_dict[name], executor.arg_dict[name])
        for name in learnt:
            found[f"{kind}:{name}"] = executor.arg_dict[name].asnumpy()
            found[f"moved:{kind}:{name}"] = found[f"{kind}:{name}"] - first[name]
    return found


def _filled(mx: Any, cell: Any) -> None:
    """Give the parameters of a Gluon cell values that follow from their order."""
    for seed, (_, one) in enumerate(sorted(cell.collect_params().items())):
        one.set_data(mx.nd.array(numbers(*one.shape, seed=seed) * 0.7))


@program
def gluon_cells(mx: Any) -> Arrays:
    """Each cell of Gluon over four steps: outputs, states, names, gradients; records of their own length."""
    rnn, found = mx.gluon.rnn, {}
    stack = rnn.HybridSequentialRNNCell(prefix="stack_")
    with stack.name_scope():
        stack.add(rnn.LSTMCell(5))
        stack.add(rnn.ResidualCell(rnn.GRUCell(5)))
        stack.add(rnn.DropoutCell(0.0))
    both = rnn.BidirectionalCell(rnn.LSTMCell(3, prefix="left_"), rnn.GRUCell(2, prefix="right_"))
    rows = {
        "rnn": rnn.RNNCell(3, activation="relu", prefix="rnn_"),
        "lstm": rnn.LSTMCell(3, prefix="lstm_"),
        "gru": rnn.GRUCell(3, prefix="gru_", input_size=5),
        "stack": stack,
        "both": both,
        "zoneout": rnn.ZoneoutCell(rnn.RNNCell(3, prefix="base_"), 0.0, 0.0),
        "projected": mx.gluon.contrib.rnn.LSTMPCell(4, 3, prefix="projected_"),
    }
    x = mx.nd.array(numbers(2, 4, 5))
    for name, cell in rows.items():
        cell.initialize()
        cell.unroll(4, x)  # the sizes follow from the input
        _filled(mx, cell)
        x.attach_grad()
        with mx.autograd.record():
            outputs, states = cell.unroll(4, x, merge_outputs=True)
            (outputs * mx.nd.array(numbers(*outputs.shape, seed=7))).sum().backward()
        found[name] = outputs.asnumpy()
        found[f"{name}:gradient"] = x.grad.asnumpy()
        found[f"{name}:names"] = np.array(sorted(cell.collect_params().keys()))
        for number, state in enumerate(states):
            found[f"{name}:state{number}"] = state.asnumpy()
        if name not in {"zoneout", "projected"}:
            ends = mx.nd.array([2, 4])
            turned = {"layout": "TNC", "merge_outputs": True, "valid_length": ends}
            outputs, states = cell.unroll(4, x.swapaxes(0, 1), **turned)
            found[f"{name}:ends"] = outputs.asnumpy()
            found[f"{name}:last"] = states[0].asnumpy()
    single, states = rows["lstm"](x[:, 0], rows["lstm"].begin_state(batch_size=2))
    found["single"] = single.asnumpy()
    steps, _ = rows["gru"].unroll(4, mx.sym.Variable("data"), merge_outputs=True)
    found["symbols"] = np.array(sorted(steps.list_arguments()))
    return found

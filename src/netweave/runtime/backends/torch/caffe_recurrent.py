"""Caffe's recurrent loops, whose states ``cont`` cuts off where a new sequence begins.

T steps, N examples, H hidden units. ``cont`` (T, N) is 0 where a sequence begins and 1 where it goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.node_memory import Memory, State
from netweave.runtime.backends.torch.table import lowering


def _begin(outside: Tensor, weight: Tensor, given: tuple[Tensor | None, ...], memory: Memory) -> State:
    """Return the first states, (N, H) each: those given, those kept, or zeros."""
    begin = tuple(state[0] for state in given if state is not None)
    if begin:
        return begin
    return memory.recall(outside.new_zeros(outside.shape[1], weight.shape[1]), len(given))


def _loop(
    step: Callable[[Tensor, Tensor, State], State], outside: Tensor, cont: Tensor, state: State
) -> tuple[Tensor, State]:
    """Return the first state after each step, and all states after the last."""
    outputs = []
    for gates, goes_on in zip(outside, cont[:, :, None], strict=True):
        state = step(gates, goes_on, state)
        outputs.append(state[0])
    return torch.stack(outputs), state


@lowering("CaffeLSTM", since=1, domain="netweave")
def caffe_lstm(
    outside: Tensor,
    cont: Tensor,
    weight: Tensor,
    first_h: Tensor | None = None,
    first_c: Tensor | None = None,
    *,
    training: bool = False,
    memory: Memory | None = None,
) -> tuple[Tensor, ...]:
    """lstm_layer.cpp, lstm_unit_layer.cpp: gates i, f, o, g; outputs (T, N, H), the last one, its cell."""

    def step(gates: Tensor, goes_on: Tensor, state: State) -> State:
        h, cell = state
        i, f, o, g = (gates + functional.linear(goes_on * h, weight)).chunk(4, 1)
        cell = goes_on * torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    kept = memory if memory is not None and training else Memory()
    y, last = _loop(step, outside, cont, _begin(outside, weight, (first_h, first_c), kept))
    kept.state = tuple(state.detach() for state in last)
    return y, last[0][None], last[1][None]


@lowering("CaffeRNN", since=1, domain="netweave")
def caffe_rnn(
    outside: Tensor,
    cont: Tensor,
    weight: Tensor,
    first_h: Tensor | None = None,
    *,
    training: bool = False,
    memory: Memory | None = None,
) -> tuple[Tensor, ...]:
    """rnn_layer.cpp: the hidden states (T, N, H), and the last one."""

    def step(gates: Tensor, goes_on: Tensor, state: State) -> State:
        return (torch.tanh(gates + functional.linear(goes_on * state[0], weight)),)

    kept = memory if memory is not None and training else Memory()
    y, last = _loop(step, outside, cont, _begin(outside, weight, (first_h,), kept))
    kept.state = tuple(state.detach() for state in last)
    return y, last[0][None]

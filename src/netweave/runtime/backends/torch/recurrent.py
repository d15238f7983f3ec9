"""RNN, GRU and LSTM of ONNX: torch's fused kernels where they compute the same, else step by step.

T steps, N examples, I inputs, H hidden units, D directions, G gates. In Caffe's loops ``cont`` (T, N) is 0
where a sequence begins, which cuts off the states, and 1 where it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from netweave.errors import RunError
from netweave.runtime.backends.torch.node_memory import Memory
from netweave.runtime.backends.torch.operator_table import lowering

Activation = Callable[[Tensor], Tensor]
State = tuple[Tensor, ...]
Step = Callable[[Tensor, State], State]
"""(input's share of the gates, (N, G * H); state) -> new state, whose first tensor is the output."""

_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], tuple[float, ...]]] = {
    "relu": (torch.relu, ()),
    "tanh": (torch.tanh, ()),
    "sigmoid": (torch.sigmoid, ()),
    "softsign": (functional.softsign, ()),
    "softplus": (functional.softplus, ()),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "leakyrelu": (lambda x, a: functional.leaky_relu(x, a), (0.01,)),
    "thresholdedrelu": (lambda x, a: functional.threshold(x, a, 0.0), (1.0,)),
    "scaledtanh": (lambda x, a, b: a * torch.tanh(b * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: torch.clamp(a * x + b, 0.0, 1.0), (0.2, 0.5)),
    "elu": (lambda x, a: functional.elu(x, a), (1.0,)),
}
"""Function and defaults of its alpha and beta, by lower-case name."""


def _activations(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """Return the functions; alphas and betas are taken in turn by those that have them."""
    left = [list(alphas), list(betas)]
    activations: list[Activation] = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise RunError(f"no torch lowering for the activation {name!r} of a recurrent operator")
        function, defaults = _ACTIVATIONS[name.lower()]
        values = [given.pop(0) if given else default for given, default in zip(left, defaults, strict=False)]
        activations.append(_bound(function, values))
    return activations


def _bound(function: Callable[..., Tensor], values: Sequence[float]) -> Activation:
    return lambda x: function(x, *values)


@dataclass(frozen=True, slots=True)
class _Direction:
    """The weights of one direction: ``w`` (G * H, I), ``r`` (G * H, H), ``wb`` and ``rb`` (G * H)."""

    w: Tensor
    r: Tensor
    wb: Tensor
    rb: Tensor


def _directions(w: Tensor, r: Tensor, b: Tensor | None) -> list[_Direction]:
    if b is None:
        b = torch.zeros(w.shape[0], 2 * w.shape[1], dtype=w.dtype, device=w.device)
    return [_Direction(*row, *bias.chunk(2)) for *row, bias in zip(w, r, b, strict=True)]


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp(-clip, clip)


def _rnn_step(weights: _Direction, f: Activation, *, clip: float | None) -> Step:
    def step(gates: Tensor, state: State) -> State:
        return (f(_clipped(gates + functional.linear(state[0], weights.r, weights.rb), clip)),)

    return step


def _gru_step(
    weights: _Direction, f: Activation, g: Activation, *, clip: float | None, linear_before_reset: bool
) -> Step:
    r_zr, r_h = weights.r.split([2 * weights.r.shape[1], weights.r.shape[1]])
    b_zr, b_h = weights.rb.split([2 * weights.r.shape[1], weights.r.shape[1]])

    def step(gates: Tensor, state: State) -> State:
        (h,) = state
        x_zr, x_h = gates.split([2 * h.shape[1], h.shape[1]], 1)
        z, reset = f(_clipped(x_zr + functional.linear(h, r_zr, b_zr), clip)).chunk(2, 1)
        if linear_before_reset:
            inner = reset * functional.linear(h, r_h, b_h)
        else:
            inner = functional.linear(reset * h, r_h, b_h)
        new = g(_clipped(x_h + inner, clip))
        return ((1 - z) * new + z * h,)

    return step


def _lstm_step(
    weights: _Direction,
    activations: Sequence[Activation],
    *,
    clip: float | None,
    input_forget: bool,
    peepholes: Tensor | None,
) -> Step:
    f, g, out = activations
    p_i, p_o, p_f = (None, None, None) if peepholes is None else peepholes.chunk(3)

    def gate(x: Tensor, peephole: Tensor | None, cell: Tensor) -> Tensor:
        return f(_clipped(x if peephole is None else x + peephole * cell, clip))

    def step(gates: Tensor, state: State) -> State:
        h, cell = state
        x_i, x_o, x_f, x_c = (gates + functional.linear(h, weights.r, weights.rb)).chunk(4, 1)
        enter = gate(x_i, p_i, cell)
        forget = 1 - enter if input_forget else gate(x_f, p_f, cell)
        cell = forget * cell + enter * g(_clipped(x_c, clip))
        return gate(x_o, p_o, cell) * out(cell), cell

    return step


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sequence in time, what lies behind its end staying there."""
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(x.shape[0], device=x.device)[:, None]
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return x[places, torch.arange(x.shape[1], device=x.device)]


def _run(
    step: Step, weights: _Direction, x: Tensor, state: State, lengths: Tensor | None, *, backwards: bool
) -> tuple[Tensor, State]:
    """Run one direction over all steps; behind the end of a sequence its state stays and outputs are 0."""
    x = _reversed(x, lengths) if backwards else x
    outputs = []
    for t, gates in enumerate(functional.linear(x, weights.w, weights.wb)):
        new = step(gates, state)
        if lengths is None:
            outputs.append(new[0])
            state = new
            continue
        alive = (lengths > t)[:, None]
        outputs.append(torch.where(alive, new[0], torch.zeros_like(new[0])))
        state = tuple(torch.where(alive, after, before) for after, before in zip(new, state, strict=True))
    y = torch.stack(outputs) if outputs else x.new_zeros(0, *state[0].shape)
    return (_reversed(y, lengths) if backwards else y), state


def _run_all(
    steps: Sequence[Step],
    weights: Sequence[_Direction],
    x: Tensor,
    states: Sequence[Tensor],
    lengths: Tensor | None,
    *,
    direction: str,
) -> tuple[Tensor, ...]:
    """Return Y (T, D, N, H) and the last states (D, N, H)."""
    if lengths is not None:
        lengths = lengths.to(x.device, torch.int64)
    runs = [
        _run(
            step,
            rows,
            x,
            tuple(state[d] for state in states),
            lengths,
            backwards=direction == "reverse" or d == 1,
        )
        for d, (step, rows) in enumerate(zip(steps, weights, strict=True))
    ]
    last = [torch.stack(tensors) for tensors in zip(*(state for _, state in runs), strict=True)]
    return torch.stack([y for y, _ in runs], 1), *last


def _fused(
    kernel: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[_Direction],
    order: Sequence[int],
    *,
    direction: str,
) -> tuple[Tensor, ...]:
    """Return the same by a kernel of torch's, whose gates stand in another order."""

    def arranged(tensor: Tensor) -> Tensor:
        gates = tensor.chunk(len(order))
        return torch.cat([gates[i] for i in order]) if len(order) > 1 else tensor

    backwards = direction == "reverse"
    flat = [arranged(t) for rows in weights for t in (rows.w, rows.r, rows.wb, rows.rb)]
    state = states[0] if len(states) == 1 else tuple(states)
    y, *last = kernel(
        x.flip(0) if backwards else x, state, flat, True, 1, 0.0, False, len(weights) == 2, False
    )
    y = y.reshape(*x.shape[:2], len(weights), -1).transpose(1, 2)
    return y.flip(0) if backwards else y, *last


def _recurrent(
    x: Tensor,
    weights: Sequence[_Direction],
    states: Sequence[Tensor | None],
    sequence_lens: Tensor | None,
    *,
    direction: str,
    layout: int,
    make_step: Callable[[int, _Direction], Step],
    fused: tuple[Callable[..., tuple[Tensor, ...]], Sequence[int]] | None,
) -> tuple[Tensor, ...]:
    """Run a recurrent operator.

    Args:
        x: The input, (T, N, I), or (N, T, I) if ``layout``.
        weights: The weights of each direction.
        states: First states, None for zeros.
        sequence_lens: Steps of each example, or None if all have T.
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        layout: Whether the examples come first, in the results too.
        make_step: Makes the step of a direction from its number and weights.
        fused: A kernel that computes the same and the order of its gates, if there is one.
    """
    if layout:
        x, *states = (tensor if tensor is None else tensor.transpose(0, 1) for tensor in (x, *states))
    hidden = x.new_zeros(len(weights), x.shape[1], weights[0].r.shape[1])
    begun = [hidden if state is None else state for state in states]
    if fused is not None and sequence_lens is None:
        outputs = _fused(fused[0], x, begun, weights, fused[1], direction=direction)
    else:
        steps = [make_step(d, rows) for d, rows in enumerate(weights)]
        outputs = _run_all(steps, weights, x, begun, sequence_lens, direction=direction)
    if not layout:
        return outputs
    y, *last = outputs
    return y.permute(2, 0, 1, 3), *(state.transpose(0, 1) for state in last)


def _are(names: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether the activations of every direction are the expected ones."""
    times = len(names) // len(expected)
    return [name.lower() for name in names] == list(expected) * times


@lowering("RNN", since=7)
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Elman's net: ``h = f(W x + R h + Wb + Rb)``."""
    names = activations[: w.shape[0]]
    functions = _activations(names, activation_alpha, activation_beta)
    kernels = (("tanh", torch.rnn_tanh), ("relu", torch.rnn_relu))
    fused = next(((kernel, (0,)) for name, kernel in kernels if _are(names, [name])), None)
    return _recurrent(
        x,
        _directions(w, r, b),
        [initial_h],
        sequence_lens,
        direction=direction,
        layout=layout,
        make_step=lambda d, rows: _rnn_step(rows, functions[d], clip=clip),
        fused=fused if clip is None else None,
    )


@lowering("GRU", since=7)
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = ("Sigmoid", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:
    """Gated unit with the gates z, r, h; torch's kernel (r, z, h) resets after the product only."""
    names = activations[: 2 * w.shape[0]]
    functions = _activations(names, activation_alpha, activation_beta)
    same = linear_before_reset and clip is None and _are(names, ("sigmoid", "tanh"))
    return _recurrent(
        x,
        _directions(w, r, b),
        [initial_h],
        sequence_lens,
        direction=direction,
        layout=layout,
        make_step=lambda d, rows: _gru_step(
            rows,
            functions[2 * d],
            functions[2 * d + 1],
            clip=clip,
            linear_before_reset=bool(linear_before_reset),
        ),
        fused=(torch.gru, (1, 0, 2)) if same else None,
    )


@lowering("LSTM", since=7)
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = ("Sigmoid", "Tanh", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Long short-term memory with the gates i, o, f, c; torch's kernel has them as i, f, c, o."""
    names = activations[: 3 * w.shape[0]]
    functions = _activations(names, activation_alpha, activation_beta)
    plain = clip is None and p is None and not input_forget
    same = plain and _are(names, ("sigmoid", "tanh", "tanh"))
    return _recurrent(
        x,
        _directions(w, r, b),
        [initial_h, initial_c],
        sequence_lens,
        direction=direction,
        layout=layout,
        make_step=lambda d, rows: _lstm_step(
            rows,
            functions[3 * d : 3 * d + 3],
            clip=clip,
            input_forget=bool(input_forget),
            peepholes=None if p is None else p[d],
        ),
        fused=(torch.lstm, (0, 2, 3, 1)) if same else None,
    )


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

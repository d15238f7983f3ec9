"""Faults that only a backward pass or an update shows, each with a word that the first finding has.

A is a small net with batch normalisation, or a transformer with a tied head; B is the same code or a port
with other names and layouts, from the same weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

import netweave
from netweave.comparison.training_step import TrainingRecord
from tests.comparison.training_step import optimizers
from tests.comparison.training_step.nets import Choices, Training, pair

Optimizer = torch.optim.Optimizer
Make = Callable[[Any], Optimizer]


def sgd(parameters: Any, **settings: Any) -> Optimizer:
    """Return SGD with momentum."""
    return torch.optim.SGD(parameters, **{"lr": 0.1, "momentum": 0.9, **settings})


def adam(parameters: Any, **settings: Any) -> Optimizer:
    """Return Adam."""
    return torch.optim.Adam(parameters, **{"lr": 1e-3, **settings})


def by_hand(update: optimizers.Update, rate: float = 1e-3) -> Make:
    """Return what makes an optimizer that is written by hand."""
    return lambda parameters: optimizers.ByHand(parameters, rate, update)


@dataclass(frozen=True)
class Fault:
    """Something that B does otherwise.

    Attributes:
        words: Pattern of the cause.
        kind: The net.
        choices: What its code does otherwise.
        change: Changes the module of B.
        optimizer: Of A, and of B unless there is another one.
        optimizer_b: Of B.
        reduction: Of B's loss.
        clip: Called with B's parameters before an update.
    """

    words: str
    kind: str = "images"
    choices: dict[str, Any] = field(default_factory=dict)
    change: Callable[[nn.Module], Any] | None = None
    optimizer: Make = sgd
    optimizer_b: Callable[[nn.Module], Optimizer] | None = None
    reduction: str = "mean"
    clip: Callable[[Any], Any] | None = None


def _freeze(module: nn.Module) -> None:
    for name, p in module.named_parameters():
        p.requires_grad_(name not in {"stem.weight", "k1"})


def _evaluate(module: nn.Module) -> None:
    """Have the norms of a module stay in evaluation mode whatever is called."""
    for part in module.modules():
        if hasattr(part, "momentum"):
            part.train = lambda mode=True, part=part: part  # type: ignore[method-assign]  # as people do it
            part.training = False


def _decay_all_but_biases(module: nn.Module) -> Optimizer:
    plain = [p for p in module.parameters() if p.ndim == 1]
    rest = [p for p in module.parameters() if p.ndim > 1]
    groups = [{"params": rest}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=5e-4)


def _bias_rate(module: nn.Module) -> Optimizer:
    plain = [p for p in module.parameters() if p.ndim == 1]
    rest = [p for p in module.parameters() if p.ndim > 1]
    return torch.optim.SGD([{"params": rest}, {"params": plain, "lr": 0.2}], lr=0.1, momentum=0.9)


def made(make: Callable[..., Optimizer], **settings: Any) -> Callable[[nn.Module], Optimizer]:
    """Return what makes the optimizer of a module."""
    return lambda module: make(module.parameters(), **settings)


FAULTS: dict[str, Fault] = {
    "frozen layer": Fault("require", change=_freeze),
    "residual branch detached": Fault("detach", choices={"cut": "branch"}),
    "features in no_grad": Fault("no_grad", choices={"cut": "no_grad"}),
    "hidden states through .data": Fault(r"\bdata\b", "text", {"cut": "data"}),
    "attention scores detached": Fault("detach", "text", {"cut": "scores"}),
    "rounding without its straight-through gradient": Fault("round", choices={"rounding": "plain"}),
    "gradient not reversed": Fault("-2|sign", choices={"reverse": 1.0}),
    "head not tied": Fault("one weight|copy", "text", {"tied": False}),
    "padding row without gradient": Fault("only 3|padding", "text", {"padding": 3}),
    "loss summed": Fault("number of samples|6 times", reduction="sum"),
    "momentum of the statistics": Fault("0.1 .*0.01", choices={"momentum": 0.01}),
    "momentum of the statistics turned": Fault("0.1 .*0.9", choices={"momentum": 0.9}),
    "variance divided by n": Fault("variance", choices={"is_biased": True}),
    "norm in evaluation mode": Fault("stored|evaluation", change=_evaluate),
    "dropout": Fault("dropout", choices={"dropout": 0.5}),
    "no dropout": Fault("dropout", "text", {"dropout": 0.0}),
    "eps of Adam": Fault("eps is 1e-08 in A, 1e-07", optimizer=adam, optimizer_b=made(adam, eps=1e-7)),
    "moments not corrected": Fault(
        "correct", optimizer=adam, optimizer_b=made(by_hand(optimizers.uncorrected_adam))
    ),
    "Adam of Keras": Fault("eps", optimizer=adam, optimizer_b=made(by_hand(optimizers.adam_of_keras))),
    "eps inside the root": Fault("inside", optimizer=adam, optimizer_b=made(by_hand(optimizers.adam_inside))),
    "beta2": Fault("beta2", optimizer=adam, optimizer_b=made(adam, betas=(0.9, 0.99))),
    "weight decay decoupled": Fault(
        "decoupled",
        optimizer=lambda p: adam(p, weight_decay=1e-2),
        optimizer_b=lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3, weight_decay=1e-2),
    ),
    "no decay of biases": Fault(
        "decay.* for", optimizer=lambda p: sgd(p, weight_decay=5e-4), optimizer_b=_decay_all_but_biases
    ),
    "rate of biases doubled": Fault("learning rate.* for", optimizer_b=_bias_rate),
    "dampened momentum": Fault("dampening", optimizer_b=made(by_hand(optimizers.averaged_momentum, 0.1))),
    "Nesterov": Fault("Nesterov", optimizer_b=made(sgd, nesterov=True)),
    "RMSprop of TensorFlow": Fault(
        "inside",
        optimizer=lambda p: torch.optim.RMSprop(p, lr=1e-3),
        optimizer_b=made(by_hand(optimizers.rmsprop_inside)),
    ),
    "Adagrad of TensorFlow": Fault(
        "0.1",
        optimizer=lambda p: torch.optim.Adagrad(p, lr=1e-2),
        optimizer_b=made(by_hand(optimizers.adagrad_of_tensorflow, 1e-2)),
    ),
    "gradients clipped": Fault("clipped", clip=lambda p: nn.utils.clip_grad_norm_(p, 0.1)),
    "gradients clipped by value": Fault("clipped", clip=lambda p: nn.utils.clip_grad_value_(p, 0.01)),
}


def _twice(state: dict[str, torch.Tensor], g: torch.Tensor, number: int) -> torch.Tensor:
    """Return the step of SGD on gradients that were not reset: those of all updates so far."""
    state["sum"] = state.get("sum", 0) + g
    state["buffer"] = 0.9 * state["buffer"] + state["sum"] if "buffer" in state else state["sum"]
    return state["buffer"]


def _warming(state: dict[str, torch.Tensor], g: torch.Tensor, number: int) -> torch.Tensor:
    """Return the step of SGD whose rate grows over ten updates."""
    state["buffer"] = 0.9 * state["buffer"] + g if "buffer" in state else g
    return number / 10 * state["buffer"]


def _sign(state: dict[str, torch.Tensor], g: torch.Tensor, number: int) -> torch.Tensor:
    """Return the step of Lion."""
    m = state.get("m", torch.zeros_like(g))
    state["m"] = 0.99 * m + 0.01 * g
    return torch.sign(0.9 * m + 0.1 * g)


def _frozen_norms(module: nn.Module) -> None:
    for name, p in module.named_parameters():
        p.requires_grad_(not re.match(r"bn|n\d|norm|[gc]\d", name))


UNSEEN: dict[str, Fault] = {
    "label smoothing": Fault("loss", reduction="smoothed"),
    "classes weighed": Fault("loss", reduction="weighed"),
    "padding ignored by the loss": Fault("loss", "text", reduction="ignoring"),
    "loss over two": Fault("0.5 times|half", "text", reduction="half"),
    "gradients not reset": Fault("reset|accumulat|no formula", optimizer_b=made(by_hand(_twice, 0.1))),
    "warming up": Fault("learning rate", optimizer_b=made(by_hand(_warming, 0.1))),
    "learning rate halved": Fault("learning rate is 0.1 in A, 0.05", optimizer_b=made(sgd, lr=0.05)),
    "more momentum": Fault("momentum is 0.9 in A, 0.99", "text", optimizer_b=made(sgd, momentum=0.99)),
    "AMSGrad": Fault("AMSGrad", "text", optimizer=adam, optimizer_b=made(adam, amsgrad=True)),
    "Lion": Fault("in A, .* in B", "text", optimizer=adam, optimizer_b=made(by_hand(_sign))),
    "Adam for SGD": Fault("SGD in A, Adam", optimizer_b=made(adam)),
    "norms frozen": Fault("require", change=_frozen_norms),
    "norms frozen, in text": Fault("require", "text", change=_frozen_norms),
    "no momentum of the statistics": Fault("0.1 .*1 in B", choices={"momentum": 1.0}),
    "weight decay lost": Fault(
        "weight decay is 0.01 in A, 0",
        "text",
        optimizer=lambda p: adam(p, weight_decay=1e-2),
        optimizer_b=made(adam),
    ),
}
"""Written down before any of them was tried."""


def recorded(training: Training, optimizer: Optimizer, fault: Fault, *, is_port: bool) -> TrainingRecord:
    """Return the record of one side."""
    clip = fault.clip if is_port else None
    return netweave.record_training(
        training.net,
        training.inputs,
        loss=lambda outputs: training.loss(outputs, fault.reduction if is_port else "mean"),
        optimizer=optimizer,
        before_update=None if clip is None else lambda: clip(training.net.parameters()),
    )


def compared(fault: Fault, spelling: str, seed: int, dtype: torch.dtype) -> Any:
    """Return what a comparison says of a fault."""
    choices = replace(Choices(), **fault.choices)
    a, b = pair(fault.kind, spelling, choices, seed, dtype)
    if fault.change is not None:
        fault.change(b.net)
    make_b = fault.optimizer_b or made(fault.optimizer)
    records = (
        recorded(a, fault.optimizer(a.net.parameters()), fault, is_port=False),
        recorded(b, make_b(b.net), fault, is_port=True),
    )
    return netweave.compare_training(*records)

"""Activations, softmax among them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.table import lower_to, lowering

for _op_type, _since, _function in (
    ("HardSwish", 14, functional.hardswish),
    ("Mish", 18, functional.mish),
    ("Softplus", 1, functional.softplus),
    ("Softsign", 1, functional.softsign),
):
    lower_to(_function, _op_type, since=_since, num_inputs=1)
lower_to(torch.sigmoid, "Sigmoid", since=6, num_inputs=1, in_place=torch.sigmoid_)
lower_to(torch.tanh, "Tanh", since=6, num_inputs=1, in_place=torch.tanh_)
lower_to(torch.relu, "Relu", since=6, num_inputs=1, in_place=torch.relu_)


def leaky_relu_(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Do the same in place."""
    return functional.leaky_relu_(x, alpha)


@lowering("LeakyRelu", since=6, in_place=leaky_relu_)
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Return ``x``, below zero ``alpha * x``."""
    return functional.leaky_relu(x, alpha)


@lowering("PRelu", since=9)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Return ``x``, below zero ``slope * x``; torch's own kernel takes one slope per channel."""
    channels = x.ndim > 1 and slope.ndim == x.ndim - 1 and slope.numel() == slope.shape[0] == x.shape[1]
    if channels and x.is_floating_point():
        return functional.prelu(x, slope.flatten())
    return torch.where(x < 0, slope * x, x)


def elu_(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Do the same in place."""
    return functional.elu_(x, alpha)


@lowering("Elu", since=6, in_place=elu_)
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return ``x``, below zero ``alpha * (exp(x) - 1)``."""
    return functional.elu(x, alpha)


@lowering("Selu", since=6)
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    """Return ``gamma * elu(x, alpha)``."""
    return gamma * functional.elu(x, alpha)


@lowering("Celu", since=12)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return ``x``, below zero ``alpha * (exp(x / alpha) - 1)``."""
    return functional.celu(x, alpha)


@lowering("Gelu", since=20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return ``x`` times the normal distribution of ``x``, exactly or by ``tanh``."""
    return functional.gelu(x, approximate=approximate)


@lowering("HardSigmoid", since=6)
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return ``alpha * x + beta`` between 0 and 1; torch's own has other constants."""
    return torch.clamp(alpha * x + beta, 0.0, 1.0)


@lowering("ThresholdedRelu", since=10)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return ``x`` above ``alpha``, else zero."""
    return functional.threshold(x, alpha, 0.0)


@lowering("Swish", since=24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return ``x * sigmoid(alpha * x)``."""
    return functional.silu(x) if alpha == 1.0 else x * torch.sigmoid(alpha * x)


@lowering("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the exponentials over their sum along one axis."""
    return torch.softmax(x, axis)


@lowering("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the logarithm of ``softmax``."""
    return torch.log_softmax(x, axis)


@lowering("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return one at the first largest element along the axis, else zero."""
    return torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1)

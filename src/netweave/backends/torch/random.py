"""Random numbers, dropout among them.

All draws are torch's own generator's, so that one ``torch.manual_seed`` governs a run; a seed that stands
in the net is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from netweave.backends.torch.dtypes import torch_dtype
from netweave.backends.torch.table import lowering

if TYPE_CHECKING:
    from netweave.backends.torch.table import Ints, Number


def _kind(x: Tensor, dtype: int | None) -> torch.dtype:
    return x.dtype if dtype is None else torch_dtype(dtype)


@lowering("Dropout", since=12)
def dropout(
    data: Tensor,
    ratio: Number | None = None,
    training_mode: Number | None = None,
    *,
    seed: int | None = None,
    num_outputs: int = 1,
    training: bool = False,
) -> tuple[Tensor, ...]:
    """Zero elements with probability ``ratio`` (0.5 if it is not given) and scale up the rest.

    Active while the net is in training mode, or always if the net itself says so.
    """
    probability = 0.5 if ratio is None else float(ratio)
    active = bool(training or training_mode) and probability > 0
    if num_outputs == 1:
        return (functional.dropout(data, probability, training=True) if active else data,)
    if not active:
        return data, torch.ones_like(data, dtype=torch.bool)
    mask = torch.rand(data.shape, device=data.device) >= probability
    return torch.where(mask, data / (1 - probability), torch.zeros_like(data)), mask


@lowering("RandomNormal", since=1)
def random_normal(
    *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: Ints
) -> Tensor:
    """Draw from a normal distribution."""
    return mean + scale * torch.randn(shape, dtype=torch_dtype(dtype))


@lowering("RandomUniform", since=1)
def random_uniform(
    *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: Ints
) -> Tensor:
    """Draw from a uniform distribution."""
    return low + (high - low) * torch.rand(shape, dtype=torch_dtype(dtype))


@lowering("RandomNormalLike", since=1)
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    """Draw from a normal distribution, as many as ``x`` has elements."""
    return mean + scale * torch.randn_like(x, dtype=_kind(x, dtype))


@lowering("RandomUniformLike", since=1)
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    """Draw from a uniform distribution, as many as ``x`` has elements."""
    return low + (high - low) * torch.rand_like(x, dtype=_kind(x, dtype))


@lowering("Bernoulli", since=15)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """Return one with the probability that ``x`` says, else zero."""
    return torch.bernoulli(x).to(_kind(x, dtype))


@lowering("Multinomial", since=7)
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Draw classes, with replacement, from the logarithms of their probabilities."""
    drawn = torch.multinomial(torch.softmax(x, -1), sample_size, replacement=True)
    return drawn.to(torch_dtype(dtype))

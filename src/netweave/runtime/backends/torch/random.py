"""Random numbers, dropout among them.

All draws come from ``Draws``, by the node's own stream; a seed that stands in the net is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.runtime.backends.torch.dtypes import torch_dtype
from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.draws import Draws
    from netweave.runtime.backends.torch.table import Ints, Number


def _kind(x: Tensor, dtype: int | None) -> torch.dtype:
    return x.dtype if dtype is None else torch_dtype(dtype)


def _uniform_like(x: Tensor, draws: Draws, stream: int) -> Tensor:
    """Return uniform numbers in the shape of a tensor, laid out in memory as it is."""
    drawn = draws.uniform(stream, x.shape, device=x.device)
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return drawn.contiguous(memory_format=torch.channels_last) if last else drawn


@lowering("Dropout", since=12)
def dropout(
    data: Tensor,
    ratio: Number | None = None,
    training_mode: Number | None = None,
    *,
    seed: int | None = None,
    num_outputs: int = 1,
    training: bool = False,
    draws: Draws,
    stream: int,
) -> tuple[Tensor, ...]:
    """Zero elements with probability ``ratio`` (0.5 if it is not given) and scale up the rest.

    Active while the net is in training mode, or always if the net itself says so.
    """
    probability = 0.5 if ratio is None else float(ratio)
    active = bool(training or training_mode) and probability > 0
    if not active:
        return (data,) if num_outputs == 1 else (data, torch.ones_like(data, dtype=torch.bool))
    mask = _uniform_like(data, draws, stream) >= probability
    kept = torch.zeros_like(data) if probability >= 1 else data * mask.to(data.dtype).div_(1 - probability)
    return (kept,) if num_outputs == 1 else (kept, mask)


@lowering("RandomNormal", since=1)
def random_normal(
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: Ints,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a normal distribution."""
    return mean + scale * draws.normal(stream, shape).to(torch_dtype(dtype))


@lowering("RandomUniform", since=1)
def random_uniform(
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: Ints,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a uniform distribution."""
    return low + (high - low) * draws.uniform(stream, shape).to(torch_dtype(dtype))


@lowering("RandomNormalLike", since=1)
def random_normal_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a normal distribution, as many as ``x`` has elements."""
    return mean + scale * draws.normal(stream, x.shape, device=x.device).to(_kind(x, dtype))


@lowering("RandomUniformLike", since=1)
def random_uniform_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw from a uniform distribution, as many as ``x`` has elements."""
    return low + (high - low) * _uniform_like(x, draws, stream).to(_kind(x, dtype))


@lowering("Bernoulli", since=15)
def bernoulli(
    x: Tensor, *, dtype: int | None = None, seed: float | None = None, draws: Draws, stream: int
) -> Tensor:
    """Return one with the probability that ``x`` says, else zero."""
    return (_uniform_like(x, draws, stream) < x).to(_kind(x, dtype))


@lowering("Multinomial", since=7)
def multinomial(
    x: Tensor,
    *,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
    draws: Draws,
    stream: int,
) -> Tensor:
    """Draw classes, with replacement, from the logarithms of their probabilities."""
    shares = torch.softmax(x.double(), -1).cumsum(-1)
    drawn = draws.uniform(stream, (*x.shape[:-1], sample_size), device=x.device)
    found = torch.searchsorted(shares, drawn.double().contiguous() * shares[..., -1:])
    return found.clamp(max=x.shape[-1] - 1).to(torch_dtype(dtype))

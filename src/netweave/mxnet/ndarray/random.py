"""Drawing arrays, by torch's generator: ``mx.nd.random``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from netweave.mxnet.context import Context, current_context
from netweave.mxnet.ndarray.array import NDArray, torch_type
from netweave.mxnet.ndarray.functions import deliver, shuffle
from netweave.mxnet.recording import scope

__all__ = [
    "exponential",
    "gamma",
    "generator",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "seed",
    "shuffle",
    "uniform",
]

_generator = np.random.default_rng()


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Seed all that is drawn: by arrays, Dropout and initializers. The numbers are not those of MXNet."""
    global _generator
    torch.manual_seed(seed_state)
    _generator = np.random.default_rng(seed_state)


def generator() -> np.random.Generator:
    """Return what initializers draw from."""
    return _generator


def _draw(
    draw: Callable[..., torch.Tensor],
    parameters: Sequence[Any],
    shape: Any,
    dtype: Any,
    ctx: Context | None,
    out: Any,
) -> Any:
    """Return what is drawn; parameters that are arrays give ``shape`` draws for each of their elements."""
    if isinstance(out, NDArray):
        shape, dtype, ctx = out.shape, out.tensor.dtype, out.context
    sizes = (shape,) if isinstance(shape, int) else tuple(shape or ())
    kind = torch_type("float32" if dtype in {None, "None"} else dtype)
    arrays = [one.tensor for one in parameters if isinstance(one, NDArray)]
    if arrays:
        lead = arrays[0].shape
        values = [
            (one.tensor if isinstance(one, NDArray) else torch.full(lead, float(one)))
            .reshape(*lead, *[1] * len(sizes))
            .expand(*lead, *sizes)
            for one in parameters
        ]
        sizes = (*lead, *sizes)
    else:
        sizes = sizes or (1,)
        values = [torch.full(sizes, float(one)) for one in parameters]
    place = Context(ctx or current_context()).torch_device
    with torch.no_grad():
        sample = NDArray(draw(sizes, *(value.float().cpu() for value in values)).to(place, kind))
    return deliver([sample], out)


def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kw: Any,
) -> Any:
    """Draw from the uniform distribution between two numbers."""
    return _draw(lambda size, a, b: a + (b - a) * torch.rand(size), [low, high], shape, dtype, ctx, out)


def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kw: Any,
) -> Any:
    """Draw from a normal distribution."""
    loc, scale = kw.get("mu", loc), kw.get("sigma", scale)
    return _draw(lambda size, m, s: m + s * torch.randn(size), [loc, scale], shape, dtype, ctx, out)


def randn(*shape: int, **kw: Any) -> Any:
    """Draw from a normal distribution, in the sizes given."""
    return normal(kw.pop("loc", 0.0), kw.pop("scale", 1.0), shape or (1,), **kw)


def poisson(
    lam: Any = 1, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kw: Any
) -> Any:
    """Draw from a Poisson distribution."""
    return _draw(lambda size, rate: torch.poisson(rate), [lam], shape, dtype, ctx, out)


def exponential(
    scale: Any = 1, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kw: Any
) -> Any:
    """Draw from an exponential distribution with a mean."""
    return _draw(lambda size, mean: -mean * torch.log1p(-torch.rand(size)), [scale], shape, dtype, ctx, out)


def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
    **kw: Any,
) -> Any:
    """Draw from a gamma distribution with shape ``alpha`` and scale ``beta``."""
    return _draw(
        lambda size, a, b: torch.distributions.Gamma(a, 1.0).sample() * b,
        [alpha, beta],
        shape,
        dtype,
        ctx,
        out,
    )


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None, **kw: Any
) -> Any:
    """Draw the failures before the k-th success of probability p."""

    def draw(size: Sequence[int], count: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        return torch.poisson(torch.distributions.Gamma(count, 1.0).sample() * (1 - share) / share)

    return _draw(draw, [k, p], shape, dtype, ctx, out)


def randint(
    low: int, high: int, shape: Any = None, dtype: Any = "int32", ctx: Any = None, out: Any = None, **kw: Any
) -> Any:
    """Draw integers from ``low`` to before ``high``."""
    return _draw(
        lambda size, a, b: torch.floor(a + (b - a) * torch.rand(size)),
        [low, high],
        shape,
        dtype or "int32",
        ctx,
        out,
    )


def multinomial(
    data: NDArray, shape: Any = None, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kw: Any
) -> Any:
    """Draw classes by the probabilities in the last axis; with ``get_prob`` also their log-probabilities."""
    sizes = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    rows = data.tensor.detach().reshape(-1, data.shape[-1]).float()
    count = int(np.prod(sizes, dtype=int))
    drawn = torch.multinomial(rows, count, replacement=True)
    lead = data.shape[:-1]
    sample = NDArray(drawn.reshape(*lead, *sizes).to(torch_type(dtype)))
    if not get_prob:
        return deliver([sample], out)
    with scope():
        chosen = data.tensor.reshape(rows.shape).gather(1, drawn).log().reshape(*lead, *sizes)
    return [sample, NDArray(chosen)]

"""Operators that draw (sample_op.h): numbers of one distribution, or of one for each element of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.context import MXNetOperator


def _uniform(ctx: MXNetOperator, low: float, high: float) -> ir.Value:
    """Draw evenly, in the shape that the settings ask for."""
    settings = ctx.settings
    settings.ignore("ctx", "dtype")
    shape = [size if size > 0 else 1 for size in settings.integers("shape", (1,))]
    return ctx.add("RandomUniform", [], {"low": low, "high": high, "shape": shape or [1]})


def _typed(ctx: MXNetOperator, value: ir.Value, default: str = "float32") -> ir.Value:
    name = ctx.settings.string("dtype", default)
    dtype = onnx_dtype(default if name == "None" else name)
    return value if dtype == value.dtype else ctx.add("Cast", [value], {"to": int(dtype)})


@operator_reader("_random_uniform", "random_uniform", "uniform", arguments=())
def random_uniform(ctx: MXNetOperator) -> ir.Value:
    """Drawn evenly from ``low`` to ``high``."""
    settings = ctx.settings
    return _typed(ctx, _uniform(ctx, settings.number("low", 0.0), settings.number("high", 1.0)))


@operator_reader("_random_normal", "random_normal", "normal", arguments=())
def random_normal(ctx: MXNetOperator) -> ir.Value:
    """Drawn from a normal distribution."""
    settings = ctx.settings
    settings.ignore("ctx")
    shape = [size if size > 0 else 1 for size in settings.integers("shape", (1,))] or [1]
    scale = {"mean": settings.number("loc", 0.0), "scale": settings.number("scale", 1.0), "shape": shape}
    return _typed(ctx, ctx.add("RandomNormal", [], scale))


@operator_reader("_random_exponential", "random_exponential", arguments=())
def random_exponential(ctx: MXNetOperator) -> ir.Value:
    """Drawn from an exponential distribution: the logarithm of what is drawn evenly."""
    evenly = _uniform(ctx, 0.0, 1.0)
    rate = ctx.settings.number("lam", 1.0)
    # 1 - u, since u may be 0 and is never 1
    logarithm = ctx.add("Log", [ctx.add("Sub", [ctx.scalar(1.0, evenly), evenly])])
    return _typed(ctx, ctx.add("Div", [logarithm, ctx.scalar(-rate, evenly)]))


@operator_reader("_random_randint", "random_randint", arguments=())
def random_randint(ctx: MXNetOperator) -> ir.Value:
    """Whole numbers from ``low`` to before ``high``."""
    settings = ctx.settings
    low, high = settings.number("low"), settings.number("high")
    return _typed(ctx, ctx.add("Floor", [_uniform(ctx, low, high)]), "int32")


@operator_reader("_random_uniform_like", "random_uniform_like")
def random_uniform_like(ctx: MXNetOperator) -> ir.Value:
    """Drawn evenly, in the shape of the input."""
    settings = ctx.settings
    bounds = {"low": settings.number("low", 0.0), "high": settings.number("high", 1.0)}
    return ctx.add("RandomUniformLike", [ctx.x], bounds)


@operator_reader("_random_normal_like", "random_normal_like")
def random_normal_like(ctx: MXNetOperator) -> ir.Value:
    """Drawn from a normal distribution, in the shape of the input."""
    settings = ctx.settings
    scale = {"mean": settings.number("loc", 0.0), "scale": settings.number("scale", 1.0)}
    return ctx.add("RandomNormalLike", [ctx.x], scale)


@operator_reader("_sample_multinomial", "sample_multinomial")
def sample_multinomial(ctx: MXNetOperator) -> ir.Value:
    """Class numbers, drawn by the probabilities in the last axis."""
    settings = ctx.settings
    if settings.flag("get_prob", False):
        raise ctx.unsupported("get_prob=True is not supported in a symbol; use mx.nd.random.multinomial")
    wanted = settings.integers("shape", ())
    x = ctx.x
    lead = ctx.sizes(range(ctx.rank(x) - 1))
    count = int(np.prod(wanted, dtype=int))
    logarithms = ctx.add("Log", [x])
    flat = ctx.add("Reshape", [logarithms, ctx.integers([-1, ctx.size(-1)])])
    drawn = ctx.add("Multinomial", [flat], {"sample_size": count, "dtype": 6})
    return _typed(ctx, ctx.add("Reshape", [drawn, ctx.integers([*lead, *wanted])]), "int32")

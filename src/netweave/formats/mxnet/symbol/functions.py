"""Functions of MXNet's symbols that choose an operator by what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.symbol import Number, Symbol, operator_function

Operand = Symbol | Number


def maximum(left: Operand, right: Operand) -> Symbol:
    """Return the larger of two, element by element."""
    return _of_either("maximum", left, right)


def minimum(left: Operand, right: Operand) -> Symbol:
    """Return the smaller of two, element by element."""
    return _of_either("minimum", left, right)


def hypot(left: Operand, right: Operand) -> Symbol:
    """Return the root of the sum of two squares, element by element."""
    return _of_either("hypot", left, right)


def pow(base: Operand, exponent: Operand) -> Symbol:  # noqa: A001 - MXNet's name
    """Return a power, element by element."""
    if isinstance(base, Symbol):
        return base**exponent
    if isinstance(exponent, Symbol):
        return base**exponent
    raise UsageError(f"pow of {base!r} and {exponent!r}: expected at least one symbol")


def zeros(shape: Sequence[int], dtype: Any = "float32", name: str | None = None) -> Symbol:
    """Return an array of zeros."""
    return operator_function("_zeros")(shape=shape, dtype=dtype, name=name)


def ones(shape: Sequence[int], dtype: Any = "float32", name: str | None = None) -> Symbol:
    """Return an array of ones."""
    return operator_function("_ones")(shape=shape, dtype=dtype, name=name)


def full(shape: Sequence[int], val: float, dtype: Any = "float32", name: str | None = None) -> Symbol:
    """Return an array of one value."""
    return operator_function("_full")(shape=shape, value=val, dtype=dtype, name=name)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    *,
    repeat: int = 1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Symbol:
    """Return numbers from ``start`` to before ``stop``; without ``stop`` from 0 to before ``start``."""
    first, last = (0.0, start) if stop is None else (start, stop)
    settings = {"start": first, "stop": last, "step": step, "repeat": repeat, "dtype": dtype}
    return operator_function("_arange")(**settings, name=name)


def _of_either(sign: str, left: Operand, right: Operand) -> Symbol:
    if not isinstance(left, Symbol):
        left, right = right, left
    if not isinstance(left, Symbol):
        raise UsageError(f"{sign} of {left!r} and {right!r}: expected at least one symbol")
    return left.with_other(sign, right)

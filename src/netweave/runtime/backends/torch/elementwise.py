"""Element-wise arithmetic, comparison, logic and choice; broadcasting is numpy's in both worlds."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.runtime.backends.torch.table import lower_to, lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.table import Number

_ONE_INPUT = (
    ("Abs", 6, torch.abs),
    ("Acos", 7, torch.acos),
    ("Acosh", 9, torch.acosh),
    ("Asin", 7, torch.asin),
    ("Asinh", 9, torch.asinh),
    ("Atan", 7, torch.atan),
    ("Atanh", 9, torch.atanh),
    ("BitwiseNot", 18, torch.bitwise_not),
    ("Ceil", 6, torch.ceil),
    ("Cos", 7, torch.cos),
    ("Cosh", 9, torch.cosh),
    ("Erf", 9, torch.erf),
    ("Exp", 6, torch.exp),
    ("Floor", 6, torch.floor),
    ("IsNaN", 9, torch.isnan),
    ("Log", 6, torch.log),
    ("Neg", 6, torch.neg),
    ("Not", 1, torch.logical_not),
    ("Reciprocal", 6, torch.reciprocal),
    ("Round", 11, torch.round),
    ("Sign", 9, torch.sign),
    ("Sin", 7, torch.sin),
    ("Sinh", 9, torch.sinh),
    ("Sqrt", 6, torch.sqrt),
    ("Tan", 7, torch.tan),
)

_TWO_INPUTS = (
    ("And", 7, torch.logical_and),
    ("BitwiseAnd", 18, torch.bitwise_and),
    ("BitwiseOr", 18, torch.bitwise_or),
    ("BitwiseXor", 18, torch.bitwise_xor),
    ("Equal", 7, torch.eq),
    ("Greater", 7, torch.gt),
    ("GreaterOrEqual", 12, torch.ge),
    ("Less", 7, torch.lt),
    ("LessOrEqual", 12, torch.le),
    ("Mul", 7, torch.mul),
    ("Or", 7, torch.logical_or),
    ("Sub", 7, torch.sub),
    ("Xor", 7, torch.logical_xor),
)

for _op_type, _since, _function in _ONE_INPUT:
    lower_to(_function, _op_type, since=_since, num_inputs=1)
for _op_type, _since, _function in _TWO_INPUTS:
    lower_to(_function, _op_type, since=_since, num_inputs=2)
lower_to(torch.where, "Where", since=9, num_inputs=3)


@lowering("Div", since=7)
def div(a: Tensor, b: Tensor) -> Tensor:
    """Divide; integers are cut towards zero, as in C."""
    if a.is_floating_point() or a.is_complex():
        return torch.div(a, b)
    return torch.div(a, b, rounding_mode="trunc")


@lowering("Mod", since=10)
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """Return the remainder, with the sign of ``b``, or of ``a`` if ``fmod``."""
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


@lowering("Pow", since=12)
def power(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x ** y`` in the type of ``x``."""
    return torch.pow(x, y).to(x.dtype)


@lowering("BitShift", since=11)
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """Shift unsigned integers; torch shifts signed ones only, which are wider here."""
    shift = torch.bitwise_left_shift if direction == "LEFT" else torch.bitwise_right_shift
    return shift(x.to(torch.int64), y.to(torch.int64)).to(x.dtype)


@lowering("IsInf", since=10)
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Return where ``x`` is infinite, of the asked signs."""
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if detect_negative:
        return torch.isneginf(x)
    return torch.isposinf(x) if detect_positive else torch.zeros_like(x, dtype=torch.bool)


@lowering("Clip", since=11)
def clip(x: Tensor, low: Number | None = None, high: Number | None = None) -> Tensor:
    """Bound from below, then from above; without bounds the input itself."""
    return x if low is None and high is None else torch.clamp(x, low, high)


@lowering("Max", since=8)
def maximum(*data: Tensor) -> Tensor:
    """Return the largest of any number of tensors."""
    return reduce(torch.maximum, data)


@lowering("Min", since=8)
def minimum(*data: Tensor) -> Tensor:
    """Return the smallest of any number of tensors."""
    return reduce(torch.minimum, data)


def sum_(x: Tensor, *others: Tensor) -> Tensor:
    """Add to a tensor in place, if what is added is of its shape and type."""
    for other in others:
        x = x.add_(other) if (x.shape, x.dtype) == (other.shape, other.dtype) else x + other
    return x


@lowering("Add", since=7, in_place=sum_)
def add(a: Tensor, b: Tensor) -> Tensor:
    """Add two tensors."""
    return torch.add(a, b)


@lowering("Sum", since=8, in_place=sum_)
def total(*data: Tensor) -> Tensor:
    """Add any number of tensors; the sum of one is a copy."""
    return reduce(torch.add, data) if len(data) > 1 else data[0].clone()


@lowering("Mean", since=8)
def mean(*data: Tensor) -> Tensor:
    """Average any number of tensors."""
    return reduce(torch.add, data) / len(data)


@lowering("Shrink", since=9)
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Move what is outside of ``[-lambd, lambd]`` towards zero by ``bias``; the rest is zero."""
    zero = torch.zeros_like(x)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero))


@lowering("CumSum", since=11)
def cumulative_sum(x: Tensor, axis: Number, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Add up along an axis; ``exclusive`` leaves the element itself out."""
    axis = int(axis)
    turned = x.flip(axis) if reverse else x
    summed = turned.cumsum(axis, dtype=x.dtype)
    if exclusive:
        summed = summed - turned
    return summed.flip(axis) if reverse else summed

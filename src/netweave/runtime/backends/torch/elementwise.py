"""Elementwise operators in torch, and tensors that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.kernels import PLAIN, Kernels
from netweave.runtime.backends.torch.operator_table import (
    Ints,
    Number,
    lower_to,
    lowering,
    needs_gradient,
    torch_dtype,
)

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

for _op_type_elementwise, _since_elementwise, _function_elementwise in _ONE_INPUT:
    lower_to(_function_elementwise, _op_type_elementwise, since=_since_elementwise, num_inputs=1)

for _op_type_elementwise, _since_elementwise, _function_elementwise in _TWO_INPUTS:
    lower_to(_function_elementwise, _op_type_elementwise, since=_since_elementwise, num_inputs=2)

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
def maximum(*data: Tensor, ties: str = "") -> Tensor:
    """Return the largest of any number of tensors; ``ties`` (``graph.set_ties``) has the gradient."""
    if not ties or not any(map(needs_gradient, data)):
        return reduce(torch.maximum, data)
    return _chosen(data, torch.ge, ties)


@lowering("Min", since=8)
def minimum(*data: Tensor, ties: str = "") -> Tensor:
    """Return the smallest of any number of tensors; ``ties`` has the gradient."""
    if not ties or not any(map(needs_gradient, data)):
        return reduce(torch.minimum, data)
    return _chosen(data, torch.le, ties)


def _chosen(data: Sequence[Tensor], wins: Callable[[Tensor, Tensor], Tensor], ties: str) -> Tensor:
    """Choose between tensors one after another; a tie is the earlier one's, or first of all the second's."""
    best, *rest = data
    for index, other in enumerate(rest):
        is_best = ~wins(other, best) if ties == "second" and index == 0 else wins(best, other)
        best = torch.where(is_best | best.isnan(), best, other)
    return best


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


def every(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Return every so many pixels by axis, beginning with the first, in memory as the image is."""
    made: Tensor = _Every.apply(x, strides)
    return made


def is_pointwise(x: Tensor, w: Tensor, *, strides: Sequence[int], padding: Sequence[int], group: int) -> bool:
    """Return whether a convolution is a product of matrices that lie ready in the memory of a CPU."""
    return (
        x.ndim == 4
        and w.shape[2:] == (1, 1)
        and group == 1
        and max(strides) == 1
        and not any(padding)
        and x.device.type == "cpu"
        and x.dtype == w.dtype
        and x.is_contiguous(memory_format=torch.channels_last)
        and not torch.is_autocast_enabled("cpu")  # which knows torch's own operator
    )


def pointwise(x: Tensor, w: Tensor, b: Tensor | None, kernels: Kernels = PLAIN) -> Tensor:
    """Return the convolution of images, channels last in memory, with a window of one.

    Args:
        x: The images.
        w: The filters; their last two axes are 1.
        b: The biases.
        kernels: What multiplies matrices.
    """
    made: Tensor = _Pointwise.apply(x, w, b, kernels)
    return made


def _rows(images: Tensor) -> Tensor:
    """Return images whose channels are last in memory as (pixels, channels), a view."""
    return images.movedim(1, -1).view(-1, images.shape[1])


def _images(rows: Tensor, like: Tensor) -> Tensor:
    """Return (pixels, channels) as images of the size of others; for autograd it is no view."""
    size = (len(like), *like.shape[2:], rows.shape[1])
    return rows.view(size).movedim(-1, 1).data


class _Pointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, kernels: Kernels) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.kernels, ctx.has_bias = kernels, b is not None
        return _images(kernels.product(_rows(x), w.flatten(1).t(), b), x)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        wanted = [*ctx.needs_input_grad[:2], ctx.has_bias and ctx.needs_input_grad[2]]
        if torch.is_grad_enabled():  # a derivative of this is wanted, which torch's own operator has
            sizes = [len(w)] if ctx.has_bias else None
            settings = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
            gradients: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
                above, x, w, sizes, *settings, wanted
            )
            return *gradients, None
        rows, product = _rows(above.contiguous(memory_format=torch.channels_last)), ctx.kernels.product
        dx = _images(product(rows, w.flatten(1)), x) if wanted[0] else None
        dw = product(rows.t(), _rows(x)).view(w.shape) if wanted[1] else None
        return dx, dw, rows.sum(0) if wanted[2] else None, None


class _Every(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strides: tuple[int, ...]) -> Tensor:
        last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
        ctx.memory_format = torch.channels_last if last else torch.contiguous_format
        ctx.sizes = x.shape
        ctx.places = (slice(None), slice(None), *(slice(None, None, stride) for stride in strides))
        return x[ctx.places].clone(memory_format=ctx.memory_format)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        dx = torch.empty(
            ctx.sizes, dtype=above.dtype, device=above.device, memory_format=ctx.memory_format
        ).zero_()
        dx[ctx.places] = above
        return dx, None


for _op_type_activation, _since_activation, _function_activation in (
    ("HardSwish", 14, functional.hardswish),
    ("Mish", 18, functional.mish),
    ("Softplus", 1, functional.softplus),
    ("Softsign", 1, functional.softsign),
):
    lower_to(_function_activation, _op_type_activation, since=_since_activation, num_inputs=1)

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


@lowering("ConstantOfShape", since=9)
def constant_of_shape(shape: Ints, *, value: Tensor | None = None) -> Tensor:
    """Return a tensor filled with one value, zero by default."""
    return torch.zeros(shape) if value is None else value.reshape(()).expand(shape).clone()


@lowering("Range", since=11)
def range_(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Return the numbers from ``start`` to before ``limit`` in steps of ``delta``."""
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype, device=start.device)


@lowering("EyeLike", since=9)
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Return ones on the ``k``-th diagonal of a matrix as large as ``x``."""
    kind = x.dtype if dtype is None else torch_dtype(dtype)
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
    return (columns[None, :] - rows[:, None] == k).to(kind)

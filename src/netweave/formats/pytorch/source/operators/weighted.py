"""Layers with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.source_code.steps import Field, Module, Step
from netweave.files.writing import Refused, same
from netweave.formats.pytorch.source.table import Call, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@written("Conv")
def conv(call: Call) -> Step:
    """A convolution; padding that differs between both ends is put before it."""
    out, per_group, *kernel = _weight_shape(call)
    groups = call.get("group", 1)
    before, padding = _padding(call, len(kernel))
    fields = (
        Field("in_channels", per_group * groups),
        Field("out_channels", out),
        Field("kernel_size", same(kernel)),
        Field("stride", same(call.get("strides", [1] * len(kernel))), 1),
        Field("padding", padding, 0),
        Field("dilation", same(call.get("dilations", [1] * len(kernel))), 1),
        Field("groups", groups, 1),
        Field("bias", call.has(2), True),
    )
    return call.step(before, module=Module(f"nn.Conv{len(kernel)}d", fields, _state(call)))


@written("ConvTranspose")
def conv_transpose(call: Call) -> Step:
    """A transposed convolution; an end padding larger than the begin's cannot be written."""
    channels, per_group, *kernel = _weight_shape(call)
    rank = len(kernel)
    groups = call.get("group", 1)
    begin, end = _pads(call, rank)
    extra = [a - b for a, b in zip(begin, end, strict=True)]
    output_padding = call.get("output_padding", [0] * rank)
    added = [a + b for a, b in zip(extra, output_padding, strict=True)]
    if min(added) < 0 or call.get("output_shape") or call.get("auto_pad", "NOTSET") != "NOTSET":
        raise Refused("its padding differs between both ends")
    fields = (
        Field("in_channels", channels),
        Field("out_channels", per_group * groups),
        Field("kernel_size", same(kernel)),
        Field("stride", same(call.get("strides", [1] * rank)), 1),
        Field("padding", same(begin), 0),
        Field("output_padding", same(added), 0),
        Field("groups", groups, 1),
        Field("bias", call.has(2), True),
        Field("dilation", same(call.get("dilations", [1] * rank)), 1),
    )
    return call.step("{m}({0})", module=Module(f"nn.ConvTranspose{rank}d", fields, _state(call)))


@written("Gemm")
def gemm(call: Call) -> Step:
    """A dense layer, with its factors taken into the arrays."""
    if call.get("transA", 0) or not call.is_stored(1):
        raise Refused("its matrix is not a stored one")
    is_transposed = call.get("transB", 0) == 1
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    weight, rows = call.lazily(1), call.shape(1)
    outputs, inputs = rows if is_transposed else rows[::-1]
    state: dict[str, Callable[[], np.ndarray]] = {
        "weight": lambda: np.ascontiguousarray(weight() if is_transposed else weight().T) * _factor(alpha)
    }
    if call.has(2):
        bias = call.lazily(2)
        state["bias"] = lambda: np.broadcast_to(bias() * _factor(beta), (outputs or 0,))
    return _linear(call, inputs, outputs, state)


@written("MatMul")
def matmul(call: Call) -> Step:
    """A product with a stored matrix as a dense layer, or of two values."""
    if call.is_stored(1) and call.rank(1) == 2:
        weight = call.lazily(1)
        inputs, outputs = call.shape(1)
        return _linear(call, inputs, outputs, {"weight": lambda: np.ascontiguousarray(weight().T)})
    if call.is_stored(0) or call.is_stored(1):
        raise Refused("it multiplies with a stored array that is no matrix")
    return call.step("{0} @ {1}", inputs=(0, 1), binds=False)


def _linear(
    call: Call, inputs: int | None, outputs: int | None, state: dict[str, Callable[[], np.ndarray]]
) -> Step:
    fields = (
        Field("in_features", inputs),
        Field("out_features", outputs),
        Field("bias", "bias" in state, True),
    )
    return call.step("{m}({0})", module=Module("nn.Linear", fields, state))


def _factor(number: float) -> np.float32:
    return np.float32(number)


def _weight_shape(call: Call) -> Sequence[int]:
    shape = call.lazily(1)().shape if not call.shape(1) else call.shape(1)
    sizes = [size for size in shape if size is not None]
    if len(sizes) not in {3, 4, 5}:
        raise Refused(f"its weights have {len(sizes)} axes")
    return sizes


def _state(call: Call) -> dict[str, Callable[[], np.ndarray]]:
    return {"weight": call.lazily(1)} | ({"bias": call.lazily(2)} if call.has(2) else {})


def _pads(call: Call, rank: int) -> tuple[list[int], list[int]]:
    pads = list(call.get("pads") or [0] * (2 * rank))
    return pads[:rank], pads[rank:]


def _padding(call: Call, rank: int) -> tuple[str, int | tuple[int, ...]]:
    """Return the call of the module, padded first if need be, and the module's own padding."""
    begin, end = same_pads(call, rank) or _pads(call, rank)
    if begin == end:
        return "{m}({0})", same(begin)
    return f"{{m}}(F.pad({{0}}, {pad_argument(begin, end)}))", 0


def same_pads(call: Call, rank: int) -> tuple[list[int], list[int]] | None:
    """Return the padding that ``auto_pad`` asks for; None where it asks for none.

    Raises:
        Refused: It depends on sizes that are not known.
    """
    rule = call.get("auto_pad", "NOTSET")
    if rule in {"NOTSET", "VALID"}:
        return None
    kernel = call.get("kernel_shape") or call.shape(1)[2:]
    strides = call.get("strides") or [1] * rank
    dilations = call.get("dilations") or [1] * rank
    begin, end = [], []
    for size, taps, stride, dilation in zip(call.shape(0)[2:], kernel, strides, dilations, strict=True):
        if size is None and stride > 1:
            raise Refused("its padding is a rule (auto_pad) and sizes are not known; give the input's sizes")
        before = 0 if size is None else (size - 1) % stride
        total = max(0, dilation * (taps - 1) - before)
        begin.append(total // 2 if rule == "SAME_UPPER" else total - total // 2)
        end.append(total - begin[-1])
    return begin, end


def pad_argument(begin: Sequence[int], end: Sequence[int]) -> str:
    """Return the padding as ``F.pad`` takes it: from the last axis to the first, begin and end."""
    pairs = zip(reversed(begin), reversed(end), strict=True)
    return repr(tuple(number for pair in pairs for number in pair))

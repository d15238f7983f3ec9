"""Pooling, whose padding Keras knows as ``same`` or ``valid``; other padding stands in front."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.files.writing import Refused, same
from netweave.formats.keras.source.table import Call, around, written
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import num_windows
from netweave.passes.pads import is_never_negative
from netweave.passes.specialise import same_pads

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step


@written("MaxPool")
@written("MaxPool", domain=DOMAIN)
def max_pool(call: Call) -> Step | list[Step]:
    """The largest of each window; zeros around take no part where nothing is negative, -inf never does."""
    if any(value.uses() for value in call.node.outputs[1:]):
        raise Refused("the places of its maxima are used")
    return _pooled(call, "MaxPooling2D", zeros_count=is_never_negative(call.value(0)))


@written("AveragePool")
@written("AveragePool", domain=DOMAIN)
def average_pool(call: Call) -> Step | list[Step]:
    """The mean of each window; Keras's ``same`` leaves the padding out, zeros around count."""
    includes = call.get("count_include_pad", int(call.node.domain == DOMAIN)) != 0
    return _pooled(call, "AveragePooling2D", zeros_count=includes, same_counts=not includes)


def _pooled(call: Call, kind: str, *, zeros_count: bool, same_counts: bool = True) -> Step | list[Step]:
    call.need_image()
    if set(call.get("dilations") or [1]) != {1}:
        raise Refused("Keras pools without dilation")
    kernel, strides = list(call.get("kernel_shape")), list(call.get("strides") or [1, 1])
    text = f"layers.{kind}({same(kernel)}" + (f", strides={same(strides)}" if strides != kernel else "")
    if call.get("auto_pad", "NOTSET") == "SAME_UPPER" and same_counts:
        return call.step(f'{text}, padding="same")({{0}})')
    pads = _explicit_pads(call, kernel, strides)
    if not any(pads):
        return call.step(f"{text})({{0}})")
    sizes = call.sizes() or ([1, 1] if set(strides) == {1} else None)
    if (
        same_counts
        and sizes
        and pads == same_pads(sizes, kernel, strides=strides, dilations=[1, 1], upper=True)
    ):
        return call.step(f'{text}, padding="same")({{0}})')
    if not zeros_count and kind == "MaxPooling2D":
        return _without_end(call, f"{text})", pads)
    if not zeros_count:
        raise Refused("its padding is not Keras's 'same', and zeros in its place would count")
    return call.step(f"{text})(layers.ZeroPadding2D({around(pads[:2], pads[2:])})({{0}}))")


def _without_end(call: Call, layer: str, pads: list[int]) -> list[Step]:
    """Return a maximum of what is padded with a number below all others."""
    widths = ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0))
    padded = call.step(f"ops.pad({{0}}, {widths}, constant_values=-np.inf)")
    pooled = call.step(f"{layer}({{0}})")
    name = f"{pooled.outputs[0]}/padded"
    return [replace(padded, outputs=(name,), layers=()), replace(pooled, inputs=(name,))]


def _explicit_pads(call: Call, kernel: list[int], strides: list[int]) -> list[int]:
    """Return the padding with which rounding down gives the windows of the net."""
    pads = list(call.get("pads") or [0] * 4)
    rounding = call.get("rounding") or ("ceil" if call.get("ceil_mode", 0) else "floor")
    if rounding == "floor":
        return pads
    sizes = call.sizes()
    if sizes is None:
        raise Refused("its windows depend on sizes that are not known; give the input's sizes")
    ends = []
    for axis, size in enumerate(sizes):
        begin, end = pads[axis], pads[axis + 2]
        count = num_windows(
            size,
            kernel[axis],
            stride=strides[axis],
            pads=(begin, end),
            rounding=rounding,
            any_pad=any(pads),
        )
        ends.append(max(0, (count - 1) * strides[axis] + kernel[axis] - size - begin))
    is_mean = call.node.op_type == "AveragePool"
    if is_mean and any(more > end for more, end in zip(ends, pads[2:], strict=True)):
        raise Refused("its last windows are cut, and Keras's are whole")
    return pads[:2] + ends


@written("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> Step:
    """One number for each channel."""
    call.need_image()
    kind = "Average" if call.node.op_type == "GlobalAveragePool" else "Max"
    return call.step(f"layers.Global{kind}Pooling2D(keepdims=True)({{0}})")

"""Pooling, whose padding Keras knows as ``same`` or ``valid``; other padding stands in front."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.formats.keras.source.table import KerasNode, around, writes
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import num_windows
from netweave.passes.pads import is_never_negative
from netweave.passes.specialise import same_pads

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: KerasNode) -> Step | list[Step]:
    """The largest of each window; zeros around take no part where nothing is negative, -inf never does."""
    if any(value.uses() for value in node.outputs[1:]):
        raise NotWritable("the places of its maxima are used")
    return _pooled(node, "MaxPooling2D", zeros_count=is_never_negative(node.value(0)))


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: KerasNode) -> Step | list[Step]:
    """The mean of each window; Keras's ``same`` leaves the padding out, zeros around count."""
    includes = node.get("count_include_pad", int(node.domain == DOMAIN)) != 0
    return _pooled(node, "AveragePooling2D", zeros_count=includes, same_counts=not includes)


def _pooled(node: KerasNode, kind: str, *, zeros_count: bool, same_counts: bool = True) -> Step | list[Step]:
    node.need_image()
    if set(node.get("dilations") or [1]) != {1}:
        raise NotWritable("Keras pools without dilation")
    kernel, strides = list(node.get("kernel_shape")), list(node.get("strides") or [1, 1])
    text = f"layers.{kind}({int_or_tuple(kernel)}" + (
        f", strides={int_or_tuple(strides)}" if strides != kernel else ""
    )
    if node.get("auto_pad", "NOTSET") == "SAME_UPPER" and same_counts:
        return node.step(f'{text}, padding="same")({{0}})')
    pads = _explicit_pads(node, kernel, strides)
    if not any(pads):
        return node.step(f"{text})({{0}})")
    sizes = node.sizes() or ([1, 1] if set(strides) == {1} else None)
    if (
        same_counts
        and sizes
        and pads == same_pads(sizes, kernel, strides=strides, dilations=[1, 1], upper=True)
    ):
        return node.step(f'{text}, padding="same")({{0}})')
    if not zeros_count and kind == "MaxPooling2D":
        return _without_end(node, f"{text})", pads)
    if not zeros_count:
        raise NotWritable("its padding is not Keras's 'same', and zeros in its place would count")
    return node.step(f"{text})(layers.ZeroPadding2D({around(pads[:2], pads[2:])})({{0}}))")


def _without_end(node: KerasNode, layer: str, pads: list[int]) -> list[Step]:
    """Return a maximum of what is padded with a number below all others."""
    widths = ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0))
    padded = node.step(f"ops.pad({{0}}, {widths}, constant_values=-np.inf)")
    pooled = node.step(f"{layer}({{0}})")
    name = f"{pooled.outputs[0]}/padded"
    return [replace(padded, outputs=(name,), layers=()), replace(pooled, inputs=(name,))]


def _explicit_pads(node: KerasNode, kernel: list[int], strides: list[int]) -> list[int]:
    """Return the padding with which rounding down gives the windows of the net."""
    pads = list(node.get("pads") or [0] * 4)
    rounding = node.get("rounding") or ("ceil" if node.get("ceil_mode", 0) else "floor")
    if rounding == "floor":
        return pads
    sizes = node.sizes()
    if sizes is None:
        raise NotWritable("its windows depend on sizes that are not known; give the input's sizes")
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
    is_mean = node.op_type == "AveragePool"
    if is_mean and any(more > end for more, end in zip(ends, pads[2:], strict=True)):
        raise NotWritable("its last windows are cut, and Keras's are whole")
    return pads[:2] + ends


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: KerasNode) -> Step:
    """One number for each channel."""
    node.need_image()
    kind = "Average" if node.op_type == "GlobalAveragePool" else "Max"
    return node.step(f"layers.Global{kind}Pooling2D(keepdims=True)({{0}})")

"""Pooling (pooling-inl.h): ``valid`` rounds down, ``full`` rounds up and never drops a window.

MXNet up to 0.7 rounded up and divided averages by the whole kernel; its files do not say so, and newer
versions read them with ``valid``. So does this reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from netweave.formats.mxnet.layouts import LAYOUTS, channels_first, channels_last
from netweave.formats.mxnet.registry import operator_reader
from netweave.formats.mxnet.settings import is_channels_last
from netweave.graph.ops.pooling import pooling

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.call import Call

ROUNDINGS = {"valid": "floor", "full": "full"}
GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool", "lp": "GlobalLpPool"}


@dataclass(frozen=True, slots=True)
class _Windows:
    """Where the windows of a pooling lie; one number per spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pad: tuple[int, ...]
    convention: str

    def end_pads(self, sizes: list[int]) -> list[int]:
        """Return how far beyond each axis the last window reaches."""
        ends = []
        for size, kernel, stride, pad in zip(sizes, self.kernel, self.strides, self.pad, strict=True):
            free = size + 2 * pad - (0 if self.convention == "same" else kernel)
            last = (-(-free // stride) - (self.convention == "same")) * stride
            ends.append(max(last + kernel - size - pad, 0))
        return ends


@operator_reader("Pooling", "Pooling_v1")
def pool(call: Call) -> ir.Value:
    """Windows of maximum, average, sum or norm."""
    kind = call.settings.choice("pool_type", ("max", "avg", "sum", "lp"), "max")
    last = is_channels_last(call.settings.choice("layout", LAYOUTS, None))
    x = channels_first(call, call.value("data"), last)
    read = _global if call.settings.flag("global_pool", False) else _windows
    return channels_last(call, read(call, x, kind), last)


@operator_reader("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(call: Call) -> ir.Value:
    """Average to a given height and width, where these divide the input's."""
    size = call.settings.sizes("output_size", ()) or (1,)
    height, width = (size[0], size[-1])
    x = call.value()
    if (height, width) == (1, 1):
        return call.add("GlobalAveragePool", [x])
    has = call.known_sizes(x, (2, 3))
    if has[0] % height or has[1] % width:
        raise call.refuse(f"output_size {height}x{width} does not divide the input's {has[0]}x{has[1]}")
    kernel = [has[0] // height, has[1] // width]
    return call.add("AveragePool", [x], {"kernel_shape": kernel, "strides": kernel})


def _global(call: Call, x: ir.Value, kind: str) -> ir.Value:
    call.settings.skip("kernel", "stride", "pad", "pooling_convention", "count_include_pad")
    p = call.settings.whole("p_value", 2)
    if kind == "sum":
        axes = range(2, len(call.shape(x)))
        return call.add("ReduceSum", [x, call.whole_numbers(axes)], {"keepdims": 1})
    return call.add(GLOBAL[kind], [x], {"p": p} if kind == "lp" else {})


def _windows(call: Call, x: ir.Value, kind: str) -> ir.Value:
    settings = call.settings
    kernel = settings.sizes("kernel")
    rank = len(kernel)
    if len(call.shape(x)) != rank + 2:
        raise call.wrong(f"its input has {len(call.shape(x))} axes, its kernel needs {rank + 2}")
    convention = settings.choice("pooling_convention", (*ROUNDINGS, "same"), "valid")
    strides, pad = settings.per_axis("stride", rank, 1), settings.per_axis("pad", rank, 0)
    include_pad = settings.flag("count_include_pad", True)
    p = settings.whole("p_value", 2)
    windows = _Windows(kernel, strides, pad, convention)
    if kind in {"sum", "lp"}:
        return _summed(call, x, windows, p=p if kind == "lp" else None)
    if convention == "same":
        return _same(call, x, kind, windows)
    domain, op_type, attributes = pooling(
        kind == "avg",
        kernel=kernel,
        strides=strides,
        pads=[*pad, *pad],
        rounding=ROUNDINGS[convention],
        count_include_pad=include_pad,
    )
    return call.add(op_type, [x], attributes, domain=domain)


def _same(call: Call, x: ir.Value, kind: str, windows: _Windows) -> ir.Value:
    """``ceil((size + 2 pad) / stride)`` windows, which MXNet has for a maximum only."""
    if kind != "max":
        raise call.refuse(f"pooling_convention 'same' with pool_type {kind!r} is not read")
    ends = windows.end_pads(call.known_sizes(x, range(2, 2 + len(windows.kernel))))
    attributes = {"kernel_shape": windows.kernel, "strides": windows.strides, "pads": [*windows.pad, *ends]}
    return call.add("MaxPool", [x], attributes)


def _summed(call: Call, x: ir.Value, windows: _Windows, *, p: int | None) -> ir.Value:
    """Sums of windows (or of their powers ``p``), zeros around the input made explicit."""
    rank = len(windows.kernel)
    ends = windows.pad
    if windows.convention != "valid":
        ends = tuple(windows.end_pads(call.known_sizes(x, range(2, 2 + rank))))
    if any(windows.pad) or any(ends):
        pads = [0, 0, *windows.pad, 0, 0, *ends]
        x = call.add("Pad", [x, call.whole_numbers(pads)])
    attributes = {"kernel_shape": windows.kernel, "strides": windows.strides}
    if p is not None:
        return call.add("LpPool", [x], {**attributes, "p": p})
    area = call.scalar(prod(windows.kernel), x)
    return call.add("Mul", [call.add("AveragePool", [x], attributes), area])

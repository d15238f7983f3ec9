"""Pooling (pooling-inl.h): ``valid`` rounds down, ``full`` rounds up and never drops a window.

MXNet up to 0.7 rounded up and divided averages by the whole kernel; its files do not say so, and newer
versions read them with ``valid``. So does this reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from netweave.graph.ops.pooling import pooling
from netweave.symbol.layouts import LAYOUTS, channels_first, channels_last
from netweave.symbol.registry import operator_reader
from netweave.symbol.settings import is_channels_last

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.symbol.call import Call

ROUNDINGS = {"valid": "floor", "full": "full"}
KINDS = ("max", "avg", "sum", "lp")


@dataclass(frozen=True, slots=True)
class _Windows:
    """Where the windows of a pooling lie; one number per spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pad: tuple[int, ...]
    convention: str

    @property
    def axes(self) -> range:
        """The spatial axes."""
        return range(2, 2 + len(self.kernel))

    @property
    def attributes(self) -> dict[str, Any]:
        """ONNX's attributes, without padding."""
        return {"kernel_shape": self.kernel, "strides": self.strides}

    def end_pads(self, sizes: Sequence[int], *, clip: bool = False) -> list[int]:
        """Return how far beyond each axis the last window reaches.

        Args:
            sizes: The spatial sizes of the input.
            clip: Drop a last window that would start beyond the padding.
        """
        ends = []
        for size, kernel, stride, pad in zip(sizes, self.kernel, self.strides, self.pad, strict=True):
            padded = size + 2 * pad
            last = -(-padded // stride) - 1 if self.convention == "same" else -(-(padded - kernel) // stride)
            if clip:
                last = min(last, (padded - 1) // stride)
            ends.append(max(last * stride + kernel - size - pad, 0))
        return ends


@operator_reader("Pooling")
def pool(call: Call) -> ir.Value:
    """Windows of maximum, average, sum or norm."""
    kind = call.settings.choice("pool_type", KINDS, "max")
    last = is_channels_last(call.settings.choice("layout", LAYOUTS, None))
    p = call.settings.whole("p_value", 2)
    x = channels_first(call, call.value("data"), last)
    if call.settings.flag("global_pool", False):
        call.settings.skip("kernel", "stride", "pad", "pooling_convention", "count_include_pad")
        return channels_last(call, _global(call, x, kind, p), last)
    windows = _read_windows(call, x)
    if kind in {"sum", "lp"}:
        made = _summed(call, x, windows, p=p if kind == "lp" else 1)
    elif windows.convention == "same":
        made = _same(call, x, kind, windows)
    else:
        made = _usual(call, x, kind, windows)
    return channels_last(call, made, last)


@operator_reader("Pooling_v1")
def pool_v1(call: Call) -> ir.Value:
    """The older kernels (pooling_v1-inl.h): zeros around the input count, in a maximum too.

    Averages are divided by the whole window. A window that would start beyond the padding is dropped.
    """
    kind = call.settings.choice("pool_type", KINDS[:3], "max")
    x = call.value("data")
    if call.settings.flag("global_pool", False):
        call.settings.skip("kernel", "stride", "pad", "pooling_convention")
        return _global(call, x, kind, 1)
    windows = _read_windows(call, x)
    if kind == "max":
        padded = _padded(call, x, windows.pad, windows.pad)
        attributes = {"ceil_mode": int(windows.convention == "full"), **windows.attributes}
        return call.add("MaxPool", [padded], attributes)
    total = _summed(call, x, windows, p=1, clip=True)
    return total if kind == "sum" else call.add("Div", [total, call.scalar(prod(windows.kernel), x)])


@operator_reader("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(call: Call) -> ir.Value:
    """Average to a given height and width, where these divide the input's."""
    size = call.settings.sizes("output_size", ()) or (1,)
    height, width = (size[0], size[-1])
    x = call.value()
    if (height, width) == (1, 1):
        return call.add("GlobalAveragePool", [x])
    has = call.known_sizes(x, (2, 3))
    if height < 1 or width < 1 or has[0] % height or has[1] % width:
        raise call.refuse(f"output_size {height}x{width} does not divide the input's {has[0]}x{has[1]}")
    kernel = [has[0] // height, has[1] // width]
    return call.add("AveragePool", [x], {"kernel_shape": kernel, "strides": kernel})


def _read_windows(call: Call, x: ir.Value) -> _Windows:
    settings = call.settings
    kernel = settings.kernel()
    rank = len(kernel)
    if len(call.shape(x)) != rank + 2:
        raise call.wrong(f"its input has {len(call.shape(x))} axes, its kernel needs {rank + 2}")
    return _Windows(
        kernel,
        settings.per_axis("stride", rank, 1),
        settings.per_axis("pad", rank, 0),
        settings.choice("pooling_convention", (*ROUNDINGS, "same"), "valid"),
    )


def _usual(call: Call, x: ir.Value, kind: str, windows: _Windows) -> ir.Value:
    domain, op_type, attributes = pooling(
        kind == "avg",
        kernel=windows.kernel,
        strides=windows.strides,
        pads=[*windows.pad, *windows.pad],
        rounding=ROUNDINGS[windows.convention],
        count_include_pad=call.settings.flag("count_include_pad", True),
    )
    return call.add(op_type, [x], attributes, domain=domain)


def _same(call: Call, x: ir.Value, kind: str, windows: _Windows) -> ir.Value:
    """``ceil((size + 2 pad) / stride)`` windows, which MXNet has for a maximum only."""
    if kind != "max":
        raise call.refuse(f"pooling_convention 'same' with pool_type {kind!r} is not read")
    ends = windows.end_pads(call.known_sizes(x, windows.axes))
    return call.add("MaxPool", [x], {"pads": [*windows.pad, *ends], **windows.attributes})


def _global(call: Call, x: ir.Value, kind: str, p: int) -> ir.Value:
    if kind in {"max", "avg"}:
        return call.add("GlobalMaxPool" if kind == "max" else "GlobalAveragePool", [x])
    axes = call.whole_numbers(range(2, len(call.shape(x))))
    powers = _power(call, x, p if kind == "lp" else 1)
    return _root(call, call.add("ReduceSum", [powers, axes], {"keepdims": 1}), p if kind == "lp" else 1)


def _summed(call: Call, x: ir.Value, windows: _Windows, *, p: int, clip: bool = False) -> ir.Value:
    """Sums of the powers ``p`` in each window, and their root; zeros around the input count."""
    ends: Sequence[int] = windows.pad
    if windows.convention != "valid":
        ends = windows.end_pads(call.known_sizes(x, windows.axes), clip=clip)
    powers = _power(call, _padded(call, x, windows.pad, ends), p)
    means = call.add("AveragePool", [powers], windows.attributes)
    return _root(call, call.add("Mul", [means, call.scalar(prod(windows.kernel), x)]), p)


def _padded(call: Call, x: ir.Value, begins: Sequence[int], ends: Sequence[int]) -> ir.Value:
    if not any(begins) and not any(ends):
        return x
    return call.add("Pad", [x, call.whole_numbers([0, 0, *begins, 0, 0, *ends])])


def _power(call: Call, x: ir.Value, p: int) -> ir.Value:
    """``x ** p`` with its sign: MXNet takes no absolute values."""
    if p not in {1, 2, 3}:
        raise call.refuse(f"p_value={p}; MXNet knows 1, 2 and 3")
    made = x
    for _ in range(p - 1):
        made = call.add("Mul", [made, x])
    return made


def _root(call: Call, x: ir.Value, p: int) -> ir.Value:
    if p == 1:
        return x
    if p == 2:
        return call.add("Sqrt", [x])
    size = call.add("Pow", [call.add("Abs", [x]), call.scalar(1 / 3, x)])
    return call.add("Mul", [call.add("Sign", [x]), size])

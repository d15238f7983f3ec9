"""Pooling (pooling-inl.h): ``valid`` rounds down, ``full`` rounds up and never drops a window.

MXNet up to 0.7 rounded up and divided averages by the whole kernel; its files do not say so, and newer
versions read them with ``valid``. So does this reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.mxnet.layouts import channels_first, channels_last
from netweave.formats.mxnet.registry import operator_reader
from netweave.formats.mxnet.settings import is_channels_last
from netweave.graph.ops.pooling import pooling

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.call import Call

LAYOUTS = ("NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC")
ROUNDINGS = {"valid": "floor", "full": "full"}
GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool", "lp": "GlobalLpPool"}


@operator_reader("Pooling", "Pooling_v1")
def pool(call: Call) -> ir.Value:
    """Windows of maximum, average, sum or norm."""
    kind = call.settings.choice("pool_type", ("max", "avg", "sum", "lp"), "max")
    last = is_channels_last(call.settings.choice("layout", LAYOUTS, None))
    x = channels_first(call, call.value("data"), last)
    read = _global if call.settings.flag("global_pool", False) else _windows
    return channels_last(call, read(call, x, kind), last)


def _global(call: Call, x: ir.Value, kind: str) -> ir.Value:
    call.settings.skip("kernel", "stride", "pad", "pooling_convention", "count_include_pad")
    attributes = {"p": call.settings.whole("p_value", 2)} if kind == "lp" else {}
    if kind == "sum":
        axes = list(range(2, len(call.shape(x))))
        return call.add("ReduceSum", [x, call.whole_numbers(axes)], {"keepdims": 1})
    return call.add(GLOBAL[kind], [x], attributes)


def _windows(call: Call, x: ir.Value, kind: str) -> ir.Value:
    settings = call.settings
    kernel = settings.sizes("kernel")
    if len(call.shape(x)) != len(kernel) + 2:
        raise call.wrong(f"its input has {len(call.shape(x))} axes, its kernel needs {len(kernel) + 2}")
    pad = settings.sizes("pad", (0,) * len(kernel))
    convention = settings.choice("pooling_convention", tuple(ROUNDINGS), "valid")
    include_pad = settings.flag("count_include_pad", True)
    settings.skip("p_value")
    if kind not in {"max", "avg"}:
        raise call.refuse(f"pool_type {kind!r} is read with global_pool=True only")
    domain, op_type, attributes = pooling(
        kind == "avg",
        kernel=kernel,
        strides=settings.sizes("stride", (1,) * len(kernel)),
        pads=[*pad, *pad],
        rounding=ROUNDINGS[convention],
        count_include_pad=include_pad,
    )
    return call.add(op_type, [x], attributes, domain=domain)

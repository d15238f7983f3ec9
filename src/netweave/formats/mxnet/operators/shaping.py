"""Operators that change the shape only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.mxnet.registry import operator_reader

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.call import Call


@operator_reader("Flatten", "flatten")
def flatten(call: Call) -> ir.Value:
    """All axes but the first become one."""
    return call.add("Flatten", [call.value()], {"axis": 1})


@operator_reader("Concat", "concat", arguments=None)
def concat(call: Call) -> ir.Value:
    """Inputs one after the other along ``dim``."""
    call.settings.skip("num_args")
    values = call.values()
    axis = call.axis(call.settings.whole("dim", 1), len(call.shape(values[0])))
    return call.add("Concat", values, {"axis": axis})

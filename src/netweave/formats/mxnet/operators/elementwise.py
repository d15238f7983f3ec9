"""Operators that work element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.mxnet.registry import operator_reader

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.call import Call


@operator_reader("_copy", "identity", "BlockGrad", "stop_gradient", "_copyto", "_CrossDeviceCopy")
def identity(call: Call) -> ir.Value:
    """The input itself."""
    return call.add("Identity", [call.value()])


@operator_reader("Dropout")
def dropout(call: Call) -> ir.Value:
    """Inverted dropout; nothing in test mode."""
    settings = call.settings
    always = settings.choice("mode", ("training", "always"), "training") == "always"
    if always or settings.sizes("axes", ()) != ():
        raise call.refuse("dropout in test mode too, or one mask for several elements, is not read")
    x = call.value()
    return call.add("Dropout", [x, call.scalar(settings.number("p", 0.5), x)])

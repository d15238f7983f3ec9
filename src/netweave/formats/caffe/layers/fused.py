"""Layers that the Intel branch has joined into one: a sum and a ReLU behind another layer (``net.cpp``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.activations import rectify

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.protobuf import Message
    from netweave.formats.caffe.context import CaffeLayer


def fuses(parameter: Message) -> bool:
    """Return whether another layer is joined behind the layer of this parameter."""
    return bool(parameter["relu"] or parameter.get("fusion_type", "") == "SUM_FUSION")


def joined(ctx: CaffeLayer, parameter: Message, value: ir.Value) -> ir.Value:
    """Return what the layers that are joined behind a layer make of its own value: its only top.

    ``mkldnn_convolution_layer.cpp``: the second bottom is added, then comes the ReLU with its slope.

    Args:
        ctx: The layer.
        parameter: Its parameter with the fields of the Intel branch.
        value: What the layer itself computes.

    Raises:
        ReadError: There is not one top.
        ShapeError: What is to be added has another size.
        UnsupportedError: What is added has coefficients.
    """
    if len(ctx.tops) != 1:
        name = "relu" if parameter["relu"] else "fusion_type"
        raise ctx.read_error(
            f"{name!r} of the Intel branch is for one top, found {len(ctx.tops)}", parameter.line_of(name)
        )
    if parameter.get("fusion_type", "") == "SUM_FUSION" and len(ctx.bottoms) > 1:
        value = _added(ctx, parameter, value)
    if parameter["relu"]:
        value = rectify(ctx, value, slope=parameter.get("negative_slope", 0.0))
    return ctx.as_top(value)


def refuse_fused(ctx: CaffeLayer, parameter: Message) -> None:
    """Raise ``UnsupportedError`` where something is joined behind a layer that is read without it."""
    for name in ("relu", "fusion_type"):
        if parameter.get(name, False) not in {False, "NONE_FUSION"}:
            raise ctx.unsupported(
                f"{name!r} of the Intel branch is not supported in a layer of type {ctx.spec['type']}; write "
                "the layer that it stands for after it",
                parameter.line_of(name),
            )


def _added(ctx: CaffeLayer, parameter: Message, value: ir.Value) -> ir.Value:
    if any(number != 1 for number in parameter["coeff"]):
        raise ctx.unsupported(
            f"'coeff' is {list(parameter['coeff'])}, and the branch itself ignores it outside of its 8-bit "
            "kernels; only 1 is supported",
            parameter.line_of("coeff"),
        )
    found, expected = ("x".join(map(str, ctx.shape(each)[1:])) for each in (ctx.bottoms[1], value))
    if found != expected:
        raise ctx.shape_error(
            f"'fusion_type' adds its second bottom, of the size {found}, expected {expected}",
            parameter.line_of("fusion_type"),
        )
    return ctx.add("Add", [value, ctx.bottoms[1]])

"""Connectionist temporal classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings

LENGTHS = {"use_data_lengths": "data_lengths", "use_label_lengths": "label_lengths"}
"""Inputs that are there if a setting says so."""


def _arguments(settings: Settings) -> Sequence[str]:
    return ["data", "label", *(name for flag, name in LENGTHS.items() if settings.flag(flag, False))]


@operator_reader("CTCLoss", arguments=_arguments)
@operator_reader("ctc_loss", arguments=_arguments)
@operator_reader("_contrib_CTCLoss", arguments=_arguments)
@operator_reader("_contrib_ctc_loss", arguments=_arguments)
def ctc_loss(ctx: MXNetOperator) -> ir.Value:
    """A loss for each sequence, from scores of (steps, batch, classes)."""
    settings = ctx.settings
    attributes = {
        "blank_label": settings.choice("blank_label", ("first", "last"), "first"),
        **{flag: int(settings.flag(flag, False)) for flag in LENGTHS},
    }
    x = ctx.input("data", batch_axis=1)
    batch = ctx.shape(x)[1]
    values = [x, ctx.input("label")]
    values += [ctx.input(name, default=(batch,)) for flag, name in LENGTHS.items() if attributes[flag]]
    return ctx.add("CTCLoss", values, attributes, domain=DOMAIN)


@operator_reader("WarpCTC", arguments=("data", "label"))
def warp_ctc(ctx: MXNetOperator) -> ir.Value:
    """Softmax over rows, whose gradient is that of the loss: the plugin of MXNet before 1.0."""
    settings = ctx.settings
    attributes = {
        "input_length": settings.integer("input_length", 0),
        "label_length": settings.integer("label_length", 0),
    }
    if min(attributes.values()) < 1:
        raise ctx.read_error("input_length and label_length must be set, and be 1 or more")
    return ctx.add("CTCOutput", [ctx.x, ctx.input("label")], attributes, domain=DOMAIN)

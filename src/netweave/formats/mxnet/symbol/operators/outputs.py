"""Losses of MXNet as outputs: forward gives the prediction, backward the gradient of the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator


# The fused ``RNN`` has one packed array for all weights of all its layers, in cuDNN's order.


NORMALIZATIONS = ("null", "batch", "valid")


@operator_reader("SoftmaxOutput", "Softmax", arguments=("data", "label"))
def softmax_output(ctx: MXNetOperator) -> ir.Value:
    """Softmax and cross-entropy; ``Softmax`` is its oldest name."""
    settings = ctx.settings
    attributes = {
        "grad_scale": settings.number("grad_scale", 1.0),
        "ignore_label": settings.number("ignore_label", -1.0),
        "use_ignore": int(settings.flag("use_ignore", False)),
        "multi_output": int(settings.flag("multi_output", False)),
        "preserve_shape": int(settings.flag("preserve_shape", False)),
        "normalization": settings.choice("normalization", NORMALIZATIONS, "null"),
        "out_grad": int(settings.flag("out_grad", False)),
        "smooth_alpha": settings.number("smooth_alpha", 0.0),
    }
    x = ctx.x
    shape = ctx.shape(x)
    label = ctx.input("label", default=(shape[0], *shape[2:]) if attributes["multi_output"] else shape[:-1])
    return ctx.add("SoftmaxOutput", [x, label], attributes, domain=DOMAIN)


@operator_reader("LinearRegressionOutput", arguments=("data", "label"))
@operator_reader("LogisticRegressionOutput", arguments=("data", "label"))
@operator_reader("MAERegressionOutput", arguments=("data", "label"))
def regression_output(ctx: MXNetOperator) -> ir.Value:
    """The input, or its sigmoid, against a label of its shape."""
    x = ctx.x
    shape = ctx.shape(x)
    label = ctx.input("label", default=shape[:1] if len(shape) == 2 and shape[1] == 1 else shape)
    attributes = {"grad_scale": ctx.settings.number("grad_scale", 1.0)}
    return ctx.add(ctx.op, [x, label], attributes, domain=DOMAIN)


@operator_reader("SVMOutput", arguments=("data", "label"))
def svm_output(ctx: MXNetOperator) -> ir.Value:
    """The input against class numbers, with a hinge loss."""
    settings = ctx.settings
    attributes = {
        "margin": settings.number("margin", 1.0),
        "regularization_coefficient": settings.number("regularization_coefficient", 1.0),
        "use_linear": int(settings.flag("use_linear", False)),
    }
    x = ctx.x
    label = ctx.input("label", default=ctx.shape(x)[:1])
    return ctx.add("SVMOutput", [x, label], attributes, domain=DOMAIN)


@operator_reader("MakeLoss")
def make_loss(ctx: MXNetOperator) -> ir.Value:
    """The input as a loss."""
    settings = ctx.settings
    attributes = {
        "grad_scale": settings.number("grad_scale", 1.0),
        "valid_thresh": settings.number("valid_thresh", 0.0),
        "normalization": settings.choice("normalization", NORMALIZATIONS, "null"),
    }
    return ctx.add("MakeLoss", [ctx.x], attributes, domain=DOMAIN)

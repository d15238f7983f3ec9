"""Operators that TensorFlow's own optimiser joined (remapper.cc): a product, and what lies behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.files.channels_last.normalisation import batch_normalisation
from netweave.formats.tensorflow.operators.convolution import convolved, multiplied
from netweave.formats.tensorflow.operators.elementwise import biased
from netweave.formats.tensorflow.operators.normalization import normalised
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Operand, Tensor
    from netweave.formats.tensorflow.call import Call

PLAIN = {"Relu": "Relu", "Elu": "Elu", "Tanh": "Tanh", "Sigmoid": "Sigmoid", "_FusedHardSwish": "HardSwish"}
"""Functions that may stand behind, and ONNX's names of them."""


@operator_reader("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def fused_convolution(call: Call) -> Tensor:
    """A convolution, and what ``fused_ops`` names."""
    return _followed(call, convolved(call))


@operator_reader("_FusedMatMul")
def fused_matmul(call: Call) -> Tensor:
    """A product of matrices, and what ``fused_ops`` names."""
    return _followed(call, multiplied(call))


@operator_reader("_FusedBatchNormEx")
def fused_batch_norm_ex(call: Call) -> Tensor:
    """A normalisation, perhaps with something added, and a rectifier."""
    made = normalised(call)
    for other in call.operands(5, 5 + call.whole("num_side_inputs", 0)):
        made = broadcast(call.writer, "Add", [made, other])
    mode = call.text("activation_mode", "Identity")
    return made if mode == "Identity" else _function(call, mode, made)


def _followed(call: Call, made: Tensor) -> Tensor:
    names = [bytes(name).decode("utf-8", "replace") for name in call.attribute("fused_ops", [])]
    more = call.operands(2, 2 + call.whole("num_args", 0))
    for name in names:
        if name == "BiasAdd":
            made = biased(call, made, _next(call, more))
        elif name == "Add":
            made = broadcast(call.writer, "Add", [made, _next(call, more)])
        elif name == "FusedBatchNorm":
            gamma, beta, mean, variance = (_next(call, more) for _ in range(4))
            made = batch_normalisation(
                call.writer,
                made,
                gamma=gamma,
                beta=beta,
                mean=mean,
                variance=variance,
                eps=call.real("epsilon", 1e-4),
                last=call.is_last(),
            )
        else:
            made = _function(call, name, made)
    return made


def _next(call: Call, more: list[Operand]) -> Operand:
    if not more:
        raise call.wrong(f"fused_ops={call.attribute('fused_ops')} need more inputs than there are")
    return more.pop(0)


def _function(call: Call, name: str, x: Tensor) -> Tensor:
    writer = call.writer
    if name == "Relu6":
        value = x.value
        return unary(writer, "Clip", x, more=[writer.number(0, value), writer.number(6, value)])
    if name == "LeakyRelu":
        return unary(writer, "LeakyRelu", x, {"alpha": call.real("leakyrelu_alpha", 0.2)})
    if name in {"GeluExact", "GeluApproximate"}:
        return unary(writer, "Gelu", x, {"approximate": "none" if name == "GeluExact" else "tanh"})
    if name not in PLAIN:
        raise call.refuse(f"{name!r} in fused_ops is not read")
    return unary(writer, PLAIN[name], x)

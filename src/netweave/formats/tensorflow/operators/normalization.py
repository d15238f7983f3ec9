"""Normalisations (fused_batch_norm_op.cc, lrn_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.files.channels_last.normalisation import batch_normalisation
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Operand
    from netweave.formats.tensorflow.call import Call


@operator_reader("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(call: Call) -> Tensor:
    """By stored statistics; by those of the batch only a net in training does."""
    return normalised(call)


def normalised(call: Call) -> Tensor:
    """Return the first input by the four behind it."""
    if call.attribute("is_training", True):
        raise call.refuse(
            "is_training=True: it normalises by the batch's own statistics; save the net as it predicts "
            "(training=False, or is_training fed with False before it is frozen)"
        )
    x, gamma, beta, mean, variance = call.operands(0, 5)
    return batch_normalisation(
        call.writer,
        x,
        gamma=gamma,
        beta=beta,
        mean=mean,
        variance=variance,
        eps=call.real("epsilon", 1e-4),
        last=call.is_last(),
    )


@operator_reader("BatchNormWithGlobalNormalization")
def global_normalization(call: Call) -> Tensor:
    """The normalisation of the first nets of TensorFlow; a scale may be left out."""
    x, mean, variance, beta, gamma = call.operands(0, 5)
    return batch_normalisation(
        call.writer,
        x,
        gamma=gamma if call.attribute("scale_after_normalization", False) else None,
        beta=beta,
        mean=mean,
        variance=variance,
        eps=call.real("variance_epsilon", 0.0),
        last=True,
    )


@operator_reader("BatchNormalization")
def batch_normalization(call: Call) -> Tensor:
    """A group of nodes that is ``(x - mean) * rsqrt(variance + eps) * gamma + beta`` (``patterns``)."""
    x, mean, variance, *more = call.operands()
    gamma = more.pop(0) if call.attribute("gamma") else None
    beta = more.pop(0) if call.attribute("beta") else None
    eps = call.real("epsilon", 0.0)
    rank = len(call.shape(x))
    vectors = [_vector(call, array, rank) for array in (gamma, beta, mean, variance)]
    if (
        rank >= 2
        and vectors[2] is not None
        and vectors[3] is not None
        and vectors.count(None) == [gamma, beta].count(None)
    ):
        return batch_normalisation(
            call.writer, x, gamma=vectors[0], beta=vectors[1], mean=vectors[2], variance=vectors[3], eps=eps
        )
    return _written_out(call, x, gamma, beta, mean, variance, eps)


@operator_reader("LRN")
def lrn(call: Call) -> Tensor:
    """``x * (bias + alpha * sum of squares) ** -beta``; ONNX divides alpha by the window's size."""
    size = 2 * call.whole("depth_radius", 5) + 1
    settings = {
        "size": size,
        "alpha": call.real("alpha", 1.0) * size,
        "beta": call.real("beta", 0.5),
        "bias": call.real("bias", 1.0),
    }
    return Tensor(call.writer.add("LRN", [call.writer.first(call.operand())], settings), first=True)


def _vector(call: Call, array: Operand | None, rank: int) -> Operand | None:
    """Return an array with one number per channel; None for one that has more."""
    if array is None:
        return None
    *ones, size = call.shape(array) or (None,)
    if size is None or not (not ones or (len(ones) == rank - 1 and all(one == 1 for one in ones))):
        return None
    if not ones:
        return array
    return array.reshaped((size,)) if isinstance(array, Stored) else None


def _written_out(
    call: Call,
    x: Operand,
    gamma: Operand | None,
    beta: Operand | None,
    mean: Operand,
    variance: Operand,
    eps: float,
) -> Tensor:
    writer = call.writer
    padded = broadcast(writer, "Add", [variance, Tensor(writer.builder.constant(eps))])
    scale: Operand = unary(writer, "Reciprocal", unary(writer, "Sqrt", padded))
    if gamma is not None:
        scale = broadcast(writer, "Mul", [scale, gamma])
    centred = broadcast(writer, "Sub", [x, mean])
    scaled = broadcast(writer, "Mul", [centred, scale])
    return scaled if beta is None else broadcast(writer, "Add", [scaled, beta])

"""Normalization operators of TensorFlow (fused_batch_norm_op.cc, lrn_op.cc)."""

from __future__ import annotations

from collections.abc import Sequence

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.channels_last.windows import batch_normalization as by_statistics
from netweave.formats.tensorflow.nodes import TensorFlowOperation, operator_reader

# conv_ops.cc, conv_grad_input_ops.cc, matmul_op.cc and pooling_ops_common.cc.


def fused_batch_norm(ctx: TensorFlowOperation) -> Tensor:
    """By stored statistics; by those of the batch only a net in training does."""
    if ctx.attribute("is_training", True):
        raise ctx.unsupported(
            "is_training=True: it normalises by the statistics of the batch; save the net in inference mode "
            "(training=False, or is_training fed with False before it is frozen)"
        )
    return normalized_by(ctx, ctx.x, [ctx.operand(index) for index in range(1, 5)])


# no decorator: fused.py calls it, and needs its own type
operator_reader("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")(fused_batch_norm)


def normalized_by(ctx: TensorFlowOperation, x: Operand, arrays: Sequence[Operand]) -> Tensor:
    """Return a tensor normalised by a scale, a shift, means and variances."""
    gamma, beta, mean, variance = arrays
    epsilon, axis = ctx.number("epsilon", 1e-4), ctx.channel_axis
    return by_statistics(
        ctx, x, gamma=gamma, beta=beta, mean=mean, variance=variance, epsilon=epsilon, axis=axis
    )


@operator_reader("BatchNormWithGlobalNormalization")
def global_normalization(ctx: TensorFlowOperation) -> Tensor:
    """The normalisation of the first nets of TensorFlow; a scale may be left out."""
    x, mean, variance, beta, gamma = (ctx.operand(index) for index in range(5))
    scale = gamma if ctx.attribute("scale_after_normalization", False) else None
    epsilon = ctx.number("variance_epsilon", 0.0)
    return by_statistics(ctx, x, gamma=scale, beta=beta, mean=mean, variance=variance, epsilon=epsilon)


@operator_reader("BatchNormalization")
def batch_normalization(ctx: TensorFlowOperation) -> Tensor:
    """A group of nodes that is ``(x - mean) * rsqrt(variance + eps) * gamma + beta`` (``patterns``)."""
    x, mean, variance, *more = ctx.operands()
    gamma = more.pop(0) if ctx.attribute("gamma") else None
    beta = more.pop(0) if ctx.attribute("beta") else None
    epsilon = ctx.number("epsilon", 0.0)
    arrays = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    given = {role: array for role, array in arrays.items() if array is not None}
    vectors = {role: vector for role, array in given.items() if (vector := _vector(ctx, array, ctx.rank(x)))}
    if ctx.rank(x) >= 2 and len(vectors) == len(given):
        return by_statistics(
            ctx,
            x,
            gamma=vectors.get("gamma"),
            beta=vectors.get("beta"),
            mean=vectors["mean"],
            variance=vectors["variance"],
            epsilon=epsilon,
        )
    raised = ctx.broadcast("Add", [variance, ctx.constant(epsilon)])
    scale = ctx.elementwise("rsqrt", raised)
    if gamma is not None:
        scale = ctx.broadcast("Mul", [scale, gamma])
    scaled = ctx.broadcast("Mul", [ctx.broadcast("Sub", [x, mean]), scale])
    return scaled if beta is None else ctx.broadcast("Add", [scaled, beta])


@operator_reader("LRN")
def lrn(ctx: TensorFlowOperation) -> Tensor:
    """``x * (bias + alpha * sum of squares) ** -beta``; ONNX divides alpha by the window's size."""
    size = 2 * ctx.integer("depth_radius", 5) + 1
    attributes = {
        "size": size,
        "alpha": ctx.number("alpha", 1.0) * size,
        "beta": ctx.number("beta", 0.5),
        "bias": ctx.number("bias", 1.0),
    }
    return Tensor(ctx.add("LRN", [ctx.first(ctx.x)], attributes), first=True)


def _vector(ctx: TensorFlowOperation, array: Tensor | Stored, rank: int) -> Operand | None:
    """Return an array with one number per channel; None for one that has more."""
    *ones, size = ctx.shape(array) or (None,)
    if size is None or ones not in ([], [1] * (rank - 1)):
        return None
    if not ones:
        return array
    return array.reshaped((size,)) if isinstance(array, Stored) else None

"""Softmax, LRN and batch normalisation: ``softmax.cc``, ``lrn.cc``, ``cudnn_bm.cc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.normalization import batch_normalization
from netweave.formats.singa.context import Output, SingaLayer, layer
from netweave.graph.parameters import drawn, tag_sources

if TYPE_CHECKING:
    import onnx_ir as ir

BM_EPSILON = 1e-5
"""What cuDNN adds to variances (``CUDNN_BN_MIN_EPSILON``)."""


@layer("kSoftmax", "kCudnnSoftmax")
def softmax(ctx: SingaLayer) -> Output:
    """Softmax over all but the batch; ``num_softmax_per_instance`` is ignored, as there."""
    x, _ = ctx.rows()
    return Output([ctx.add_output("Softmax", [x], {"axis": 1})])


@layer("kLRN", "kCudnnLRN")
def local_response(ctx: SingaLayer) -> Output:
    """``x * (knorm + alpha / local_size * sum of squares) ** -beta`` over neighbouring channels."""
    settings = ctx.spec["lrn_conf"]
    size = settings["local_size"]
    if size < 1 or size % 2 == 0:
        raise ctx.read_error(
            f"'local_size' is {size}, expected an odd number", settings.line_of("local_size")
        )
    x = ctx.data()
    ctx.require_rank(4, x)
    attributes = {
        "size": size,
        "alpha": settings["alpha"],
        "beta": settings["beta"],
        "bias": settings["knorm"],
    }
    return Output([ctx.add_output("LRN", [x], attributes)])


@layer("kCudnnBM")
def batch_norm(ctx: SingaLayer) -> Output:
    """Normalisation by channel; besides means there is ``1 / sqrt(variance + eps)``, as cuDNN 4 keeps it."""
    ctx.expect_parameters([4], "factors, offsets, means and inverse deviations")
    x = ctx.data()
    ctx.require_rank(4, x)
    channels = ctx.size(1, x)
    shape, layout = (1, channels, 1, 1), [("reshape", (channels,))]
    scale = ctx.parameter(0, shape, "gamma", layout=layout)
    shift = ctx.parameter(1, shape, "beta", layout=layout)
    mean, variance = _statistics(ctx, shape)
    normalised = batch_normalization(
        ctx,
        x,
        gamma=scale,
        beta=shift,
        mean=mean,
        variance=variance,
        epsilon=BM_EPSILON,
        momentum=0.0 if ctx.training else None,  # the statistics are those of the last batch
        training=ctx.training,
        name=ctx.unit.name,
    )
    return Output([normalised])


def _statistics(ctx: SingaLayer, shape: tuple[int, ...]) -> tuple[ir.Value, ir.Value]:
    """Return means and variances, computed from the arrays that are stored."""
    key, mean = ctx.statistic(2, shape, "mean")
    inverse_key, inverse = ctx.statistic(3, shape, "variance")
    means: np.ndarray | ir.LazyTensor = drawn(key, shape[1:2], "mean")
    variances: np.ndarray | ir.LazyTensor = drawn(inverse_key, shape[1:2], "variance")
    if mean is not None:
        means = mean.reshape(-1)
    if inverse is not None:
        with np.errstate(divide="ignore", over="ignore"):
            found = 1 / np.square(inverse.reshape(-1).astype(np.float64)) - BM_EPSILON
        variances = np.clip(found, 0, np.finfo(np.float32).max).astype(np.float32)
    values = (
        ctx.builder.derived(means, name=f"{ctx.layer.key}/mean"),
        ctx.builder.derived(variances, name=f"{ctx.layer.key}/variance"),
    )
    for value, source in zip(values, (key, inverse_key), strict=True):
        tag_sources(value, [source])
    return values

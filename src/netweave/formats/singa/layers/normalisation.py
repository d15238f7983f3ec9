"""Softmax, LRN and batch normalisation: ``softmax.cc``, ``lrn.cc``, ``cudnn_bm.cc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.singa.call import Call, Made, layer
from netweave.graph.parameters import drawn, tag_sources

if TYPE_CHECKING:
    import onnx_ir as ir

BM_EPSILON = 1e-5
"""What cuDNN adds to variances (``CUDNN_BN_MIN_EPSILON``)."""


@layer("kSoftmax", "kCudnnSoftmax")
def softmax(call: Call) -> Made:
    """Softmax over all but the batch; ``num_softmax_per_instance`` is ignored, as there."""
    x, _ = call.rows()
    return Made([call.add("Softmax", [x], {"axis": 1})])


@layer("kLRN", "kCudnnLRN")
def local_response(call: Call) -> Made:
    """``x * (knorm + alpha / local_size * sum of squares) ** -beta`` over neighbouring channels."""
    settings = call.spec["lrn_conf"]
    size = settings["local_size"]
    if size < 1 or size % 2 == 0:
        raise call.wrong(f"'local_size' is {size}, expected an odd number", settings.line_of("local_size"))
    x = call.data()
    if len(call.shape(x)) != 4:
        raise call.wrong_shape(f"needs four axes, found {len(call.shape(x))}")
    attributes = {
        "size": size,
        "alpha": settings["alpha"],
        "beta": settings["beta"],
        "bias": settings["knorm"],
    }
    return Made([call.add("LRN", [x], attributes)])


@layer("kCudnnBM")
def batch_norm(call: Call) -> Made:
    """Normalisation by channel; besides means there is ``1 / sqrt(variance + eps)``, as cuDNN 4 keeps it."""
    call.expect_parameters([4], "factors, offsets, means and inverse deviations")
    x = call.data()
    if len(call.shape(x)) != 4:
        raise call.wrong_shape(f"needs four axes, found {len(call.shape(x))}")
    channels = call.size(x, 1)
    shape, layout = (1, channels, 1, 1), [("reshape", (channels,))]
    scale = call.parameter(0, shape, "gamma", layout=layout)
    shift = call.parameter(1, shape, "beta", layout=layout)
    mean, variance = _statistics(call, shape)
    attributes = {"epsilon": BM_EPSILON}
    inputs = [x, scale, shift, mean, variance]
    if not call.training:
        return Made([call.add("BatchNormalization", inputs, attributes)])
    attributes |= {"training_mode": 1, "momentum": 0.0}  # the statistics are those of the last batch
    outputs = [call.unit.name, "", ""]
    return Made(call.builder.add_many("BatchNormalization", inputs, attributes, outputs=outputs)[:1])


def _statistics(call: Call, shape: tuple[int, ...]) -> tuple[ir.Value, ir.Value]:
    """Return means and variances, computed from the arrays that are stored."""
    key, mean = call.statistic(2, shape, "mean")
    inverse_key, inverse = call.statistic(3, shape, "variance")
    means: np.ndarray | ir.LazyTensor = drawn(key, shape[1:2], "mean")
    variances: np.ndarray | ir.LazyTensor = drawn(inverse_key, shape[1:2], "variance")
    if mean is not None:
        means = mean.reshape(-1)
    if inverse is not None:
        with np.errstate(divide="ignore", over="ignore"):
            found = 1 / np.square(inverse.reshape(-1).astype(np.float64)) - BM_EPSILON
        variances = np.clip(found, 0, np.finfo(np.float32).max).astype(np.float32)
    values = (
        call.builder.derived(means, name=f"{call.layer.key}/mean"),
        call.builder.derived(variances, name=f"{call.layer.key}/variance"),
    )
    for value, source in zip(values, (key, inverse_key), strict=True):
        tag_sources(value, [source])
    return values

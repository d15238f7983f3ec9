"""Normalisations (batch_norm-inl.h, lrn-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.mxnet.registry import operator_reader
from netweave.graph import Statistics, set_statistics

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.call import Call

STATISTICS = ("data", "gamma", "beta", "moving_mean", "moving_var")


@operator_reader("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", arguments=STATISTICS)
def batch_norm(call: Call) -> ir.Value:
    """With ``fix_gamma``, the default, the scale is 1 whatever is stored."""
    settings = call.settings
    eps = settings.number("eps", 1e-3)
    momentum = settings.number("momentum", 0.9)
    fixed = settings.flag("fix_gamma", True)
    statistics = Statistics(fixed=settings.flag("use_global_stats", False))
    settings.skip("min_calib_range", "max_calib_range")
    if settings.flag("output_mean_var", False):
        raise call.refuse("output_mean_var=True: the mean and the variance as outputs are not read")
    x = call.value("data")
    shape = call.shape(x)
    axis = call.axis(settings.whole("axis", 1), len(shape))
    sizes = (shape[axis],)
    gamma = call.fixed_parameter("gamma", sizes, _ones) if fixed else call.parameter("gamma", sizes)
    rest = [call.parameter(name, sizes) for name in STATISTICS[2:]]
    attributes = {"epsilon": eps, "momentum": momentum}
    if axis == 1:
        made = call.add("BatchNormalization", [x, gamma, *rest], attributes)
        set_statistics(made, statistics)
        return made
    perm = list(range(len(shape)))
    perm[1], perm[axis] = axis, 1
    moved = call.add("Transpose", [x], {"perm": perm})
    made = call.add("BatchNormalization", [moved, gamma, *rest], attributes)
    set_statistics(made, statistics)
    return call.add("Transpose", [made], {"perm": perm})


def _ones(shape: tuple[int, ...]) -> np.ndarray:
    return np.ones(shape, np.float32)


@operator_reader("LRN")
def lrn(call: Call) -> ir.Value:
    """``x * (knorm + alpha / nsize * sum of squares) ** -beta`` over channels, as in ONNX."""
    settings = call.settings
    return call.add(
        "LRN",
        [call.value()],
        {
            "alpha": settings.number("alpha", 1e-4),
            "beta": settings.number("beta", 0.75),
            "bias": settings.number("knorm", 2.0),
            "size": settings.whole("nsize"),
        },
    )

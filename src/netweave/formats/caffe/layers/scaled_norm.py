"""``BN``, which is not BatchNorm: two layers of one name, with scale and shift of their own.

SegNet's and ENet's has two arrays: to learn it takes the statistics of each batch, in test phase too, and to
predict (``bn_mode: INFERENCE``) a tool has put the statistics into scale and shift. PSPNet's and TSN's has
four, as BatchNorm and Scale together. The settings tell them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.graph import Statistics
from netweave.graph.parameters import drawn
from netweave.lowering.normalization import batch_normalization

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message

_SEGNET = ("bn_mode", "scale_filler", "shift_filler")
_PSPNET = ("slope_filler", "bias_filler", "momentum", "eps", "frozen", "engine")

_SEGNET_EPS = 1e-9
"""``bn_layer.cpp``: var_eps_."""


@layer("BN")
def scaled_norm(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Normalised, then scaled and shifted: ``bn_layer.cpp`` of the branch that the settings are of."""
    parameter = ctx.spec["bn_param"]
    ctx.require_rank(4)
    of_segnet = [name for name in _SEGNET if name in parameter]
    of_pspnet = [name for name in _PSPNET if name in parameter]
    if of_segnet and of_pspnet:
        raise ctx.read_error(
            f"has {of_segnet[0]!r} of the SegNet branch and {of_pspnet[0]!r} of the PSPNet branch, expected "
            "only one of them",
            parameter.line,
        )
    return _two_arrays(ctx, parameter) if of_segnet else _four_arrays(ctx, parameter)


def _two_arrays(ctx: CaffeLayer, parameter: Message) -> Sequence[ir.Value]:
    scale = _learnt(ctx, 0, "gamma", parameter["scale_filler"], plane=True)
    shift = _learnt(ctx, 1, "beta", parameter["shift_filler"], plane=True)
    x = ctx.x
    if parameter["bn_mode"] == "LEARN":
        axes = ctx.integers([0, 2, 3])
        x = ctx.add("Sub", [x, ctx.add("ReduceMean", [x, axes])])
        variance = ctx.add("ReduceMean", [ctx.add("Mul", [x, x]), axes])
        x = ctx.add("Div", [x, ctx.add("Sqrt", [ctx.add("Add", [variance, ctx.constant(_SEGNET_EPS)])])])
    return [ctx.add("Add", [ctx.add("Mul", [x, scale]), shift], top=0)]


def _four_arrays(ctx: CaffeLayer, parameter: Message) -> Sequence[ir.Value]:
    slope = _learnt(ctx, 0, "gamma", parameter["slope_filler"])
    bias = _learnt(ctx, 1, "beta", parameter["bias_filler"])
    mean, variance = _statistic(ctx, 2, "mean"), _statistic(ctx, 3, "variance")
    normalised = batch_normalization(
        ctx,
        ctx.x,
        gamma=slope,
        beta=bias,
        mean=mean,
        variance=variance,
        epsilon=parameter["eps"],
        momentum=parameter["momentum"],
        statistics=Statistics(fixed=parameter["frozen"]),
        training=ctx.phase == "TRAIN" and not parameter["frozen"],
        name=ctx.tops[0],
    )
    return [normalised]


def _learnt(ctx: CaffeLayer, index: int, role: str, filler: Message, *, plane: bool = False) -> ir.Value:
    channels = ctx.size(1)
    shape = (channels, 1, 1) if plane else (channels,)
    return ctx.blob(index, (1, channels, 1, 1), role, filler, layout=(("reshape", shape),))


def _statistic(ctx: CaffeLayer, index: int, role: str) -> ir.Value:
    channels = ctx.size(1)
    key, array = ctx.statistic(index, (1, channels, 1, 1), role)
    values = drawn(key, (channels,), role) if array is None else np.reshape(array, channels)
    return ctx.builder.derived(values, name=key, key=key)

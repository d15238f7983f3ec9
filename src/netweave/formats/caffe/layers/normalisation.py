"""Normalisation layers of Caffe: ``lrn_layer.cpp``, ``batch_norm_layer.cpp``, and so on.

``BN`` is not BatchNorm: two layers of one name, with scale and shift of their own. SegNet's and ENet's has
two arrays: to learn it takes the statistics of each batch, in test phase too, and to predict (``bn_mode:
INFERENCE``) a tool has put the statistics into scale and shift. PSPNet's and TSN's has four, as BatchNorm and
Scale together. The settings tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netweave.files.protobuf import Message
from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.layers.elementwise import fuses, joined
from netweave.formats.caffe.layers.faces import normalize_channels
from netweave.formats.lowering.elementwise import batch_normalization
from netweave.graph import DOMAIN, Statistics
from netweave.graph.parameters import drawn


@layer("LRN")
def local_response(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Local response normalisation across channels, or within each: there ``k`` has no effect."""
    parameter = ctx.spec["lrn_param"]
    size, alpha, beta = parameter["local_size"], parameter["alpha"], parameter["beta"]
    if size % 2 == 0:
        raise ctx.read_error(
            f"'local_size' is {size}, expected an odd number", parameter.line_of("local_size")
        )
    ctx.require_rank(4)
    x = ctx.x
    if parameter["norm_region"] == "ACROSS_CHANNELS":
        attributes = {"size": size, "alpha": alpha, "beta": beta, "bias": parameter["k"]}
        return [ctx.add("LRN", [x], attributes, top=0)]
    attributes = {"size": size, "alpha": alpha, "beta": beta}
    return [ctx.add("ChannelLRN", [x], attributes, domain=DOMAIN, top=0)]


@layer("BatchNorm")
def batch_norm(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Normalisation without scale or shift, by stored statistics in test phase."""
    parameter = ctx.spec["batch_norm_param"]
    _check_rates(ctx)
    channels = 1 if ctx.rank() == 1 else ctx.size(1)
    mean, variance, count = _statistics(ctx, channels)
    fixed = bool(parameter.get("use_global_stats", False))
    normalised = batch_normalization(
        ctx,
        ctx.x,
        gamma=None,
        beta=None,
        mean=mean,
        variance=variance,
        epsilon=parameter["eps"],
        momentum=parameter["moving_average_fraction"],
        statistics=Statistics(unbiased=True, fixed=fixed, count=count),
        training=not parameter.get("use_global_stats", ctx.phase == "TEST"),
        name="" if fuses(parameter) else ctx.tops[0],
    )
    return [joined(ctx, parameter, normalised) if fuses(parameter) else normalised]


def _statistics(ctx: CaffeLayer, channels: int) -> tuple[ir.Value, ir.Value, str]:
    """Return mean and variance, which are stored as sums, and the key of what divides them: 0 for none."""
    shapes = {"mean": (channels,), "variance": (channels,), "factor": (1,)}
    stored = [ctx.statistic(index, shape, role) for index, (role, shape) in enumerate(shapes.items())]
    count, factor = stored[2]
    share = np.float32(1 / factor.item() if factor is not None and factor.item() else 0)
    statistics = []
    for (key, array), (role, shape) in zip(stored[:2], shapes.items(), strict=False):
        values = drawn(key, shape, role) if array is None else array * share
        statistics.append(ctx.builder.derived(values, name=key, key=key))
    ctx.builder.derived(np.ones(1, np.float32) if factor is None else factor, name=count, key=count)
    return statistics[0], statistics[1], count


def _check_rates(ctx: CaffeLayer) -> None:
    for spec in ctx.spec["param"]:
        if spec["lr_mult"] != 0:
            raise ctx.read_error(
                f"its arrays are statistics and are not trained: 'lr_mult' is {spec['lr_mult']:g}, expected "
                "0",
                spec.line,
            )


@layer("MVN")
def mean_variance(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Mean 0 and variance 1 for each image, channel by channel or over all; ``eps`` is outside the root."""
    parameter = ctx.spec["mvn_param"]
    ctx.require_rank(4)
    axes = ctx.integers([1, 2, 3] if parameter["across_channels"] else [2, 3])
    x, single = ctx.x, not parameter["normalize_variance"]
    centred = ctx.add("Sub", [x, ctx.add("ReduceMean", [x, axes])], top=0 if single else None)
    if single:
        return [centred]
    variance = ctx.add("ReduceMean", [ctx.add("Mul", [centred, centred]), axes])
    deviation = ctx.add("Add", [ctx.add("Sqrt", [variance]), ctx.constant(parameter["eps"])])
    return [ctx.add("Div", [centred, deviation], top=0)]


@layer("Normalize", tops=(1, 2))
def normalize(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Divided by the Euclidean norm over the channels of each place, or of all places, then scaled.

    A layer of the SSD branch, ``normalize_layer.cpp``: ``eps`` is inside the root. Without its ``norm_param``
    and without a stored scale it is NormFace's of the same name, which has none.
    """
    if "norm_param" not in ctx.spec and not ctx.blobs.is_stored(ctx):
        return normalize_channels(ctx)
    if "normalize_param" in ctx.spec or len(ctx.tops) > 1:
        raise ctx.read_error(
            "has 'norm_param' of the SSD branch, and 'normalize_param' or a second top, which only "
            "NormFace's layer of this name has"
        )
    parameter = ctx.spec["norm_param"]
    shape = ctx.shape()
    if len(shape) < 2:
        raise ctx.shape_error(f"needs a channel axis, found {len(shape)} axes")
    channels = 1 if parameter["channel_shared"] else ctx.size(1)
    layout = (("reshape", (channels, *[1] * (len(shape) - 2))),)
    scale = ctx.blob(0, (channels,), "gamma", parameter.get("scale_filler", None), layout=layout)
    axes = list(range(1, len(shape))) if parameter["across_spatial"] else [1]
    x = ctx.x
    squares = ctx.add("ReduceSum", [ctx.add("Mul", [x, x]), ctx.integers(axes)])
    norm = ctx.add("Sqrt", [ctx.add("Add", [squares, ctx.constant(parameter["eps"])])])
    return [ctx.add("Mul", [ctx.add("Div", [x, norm]), scale], top=0)]


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

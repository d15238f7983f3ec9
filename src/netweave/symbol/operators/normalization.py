"""Normalisations (batch_norm-inl.h, lrn-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import Statistics, set_statistics
from netweave.symbol.registry import operator_reader

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.symbol.call import Call

STATISTICS = ("data", "gamma", "beta", "moving_mean", "moving_var")


@operator_reader("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", arguments=STATISTICS)
@operator_reader("_contrib_SyncBatchNorm", arguments=STATISTICS)
def batch_norm(call: Call) -> ir.Value:
    """With ``fix_gamma``, the default, the scale is 1 whatever is stored."""
    settings = call.settings
    eps = settings.number("eps", 1e-3)
    momentum = settings.number("momentum", 0.9)
    fixed = settings.flag("fix_gamma", True)
    statistics = Statistics(fixed=settings.flag("use_global_stats", False))
    settings.skip("ndev", "key")
    _refuse_statistics(call)
    x = call.value("data")
    shape = call.shape(x)
    axis = call.axis(settings.whole("axis", 1), len(shape))
    sizes = (shape[axis],)
    gamma = call.fixed_parameter("gamma", sizes, 1.0) if fixed else call.parameter("gamma", sizes)
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


@operator_reader("L2Normalization")
def l2_normalization(call: Call) -> ir.Value:
    """``x / sqrt(sum of squares + eps)`` over each element of the batch, its channels, or its positions."""
    settings = call.settings
    mode = settings.choice("mode", ("instance", "channel", "spatial"), "instance")
    x = call.value()
    rank = len(call.shape(x))
    axes = {"instance": range(1, rank), "channel": [1], "spatial": range(2, rank)}[mode]
    squares = call.add("ReduceSumSquare", [x, call.whole_numbers(axes)], {"keepdims": 1})
    padded = call.add("Add", [squares, call.scalar(settings.number("eps", 1e-10), x)])
    return call.add("Div", [x, call.add("Sqrt", [padded])])


@operator_reader("InstanceNorm", arguments=("data", "gamma", "beta"))
def instance_norm(call: Call) -> ir.Value:
    """Each channel of each element of the batch by itself."""
    x = call.value("data")
    sizes = (call.size(x, 1),)
    scale, shift = call.parameter("gamma", sizes), call.parameter("beta", sizes)
    attributes = {"epsilon": call.settings.number("eps", 1e-3)}
    return call.add("InstanceNormalization", [x, scale, shift], attributes)


@operator_reader("LayerNorm", arguments=("data", "gamma", "beta"))
def layer_norm(call: Call) -> ir.Value:
    """Over one axis, the last by default."""
    settings = call.settings
    _refuse_statistics(call)
    x = call.value("data")
    shape = call.shape(x)
    axis = call.axis(settings.whole("axis", -1), len(shape))
    scale, shift = (call.parameter(name, (shape[axis],)) for name in ("gamma", "beta"))
    attributes = {"axis": -1, "epsilon": settings.number("eps", 1e-5)}
    if axis == len(shape) - 1:
        return call.add("LayerNormalization", [x, scale, shift], attributes)
    perm = list(range(len(shape)))
    perm[axis], perm[-1] = perm[-1], axis
    moved = call.add("Transpose", [x], {"perm": perm})
    made = call.add("LayerNormalization", [moved, scale, shift], attributes)
    return call.add("Transpose", [made], {"perm": perm})


@operator_reader("GroupNorm", arguments=("data", "gamma", "beta"))
def group_norm(call: Call) -> ir.Value:
    """Groups of channels of each element of the batch, with one scale and shift for each group."""
    settings = call.settings
    _refuse_statistics(call)
    groups = settings.count("num_groups", 1)
    x = call.value("data")
    (channels,) = call.known_sizes(x, [1])
    if channels % groups:
        raise call.wrong(f"{channels} channels do not make {groups} groups")
    owners = call.array(call.arange(channels) * groups // channels)
    scale, shift = (
        call.add("Gather", [call.parameter(name, (groups,)), owners]) for name in ("gamma", "beta")
    )
    attributes = {"num_groups": groups, "epsilon": settings.number("eps", 1e-5)}
    return call.add("GroupNormalization", [x, scale, shift], attributes)


def _refuse_statistics(call: Call) -> None:
    if call.settings.flag("output_mean_var", False):
        raise call.refuse("output_mean_var=True: the mean and the variance as outputs are not read")

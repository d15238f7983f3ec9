"""Layers of Caffe that pool, normalise or recur."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.layers.elementwise import fuses, joined
from netweave.formats.lowering.elementwise import batch_normalization
from netweave.formats.lowering.windows import Window
from netweave.graph import DOMAIN, Statistics
from netweave.graph.ops.pooling import pooling as pooling_operator
from netweave.graph.parameters import drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message


_SMALLEST = float(np.finfo(np.float32).tiny)
"""What Caffe adds to the sum of a stochastic window, so that an empty one gives 0."""


@layer("Pooling", tops=(1, 2))
def pooling(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Maximum, average, or the expectation of stochastic pooling; sizes are rounded up, then cut."""
    parameter = ctx.spec["pooling_param"]
    if ctx.rank() != 4:
        raise ctx.shape_error(f"pools over the last two of four axes, found {ctx.rank()} axes")
    if parameter["global_pooling"]:
        return _global(ctx, parameter)
    kernel = _pair(ctx, parameter, "kernel_size", "kernel")
    strides = _pair(ctx, parameter, "stride", "stride")
    pads = _pair(ctx, parameter, "pad", "pad")
    window = Window(kernel, strides=strides, pads=pads)
    window.check(ctx, parameter.line, is_pooling=True)
    return _pooled(ctx, parameter, window)


def _global(ctx: CaffeLayer, parameter: Message) -> Sequence[ir.Value]:
    for name in ("kernel_size", "kernel_h", "kernel_w"):
        if name in parameter:
            raise ctx.read_error(
                f"has 'global_pooling' and {name!r}, expected one of them", parameter.line_of(name)
            )
    if any(parameter[name] for name in ("pad", "pad_h", "pad_w")) or any(
        name in parameter and parameter[name] != 1 for name in ("stride", "stride_h", "stride_w")
    ):
        raise ctx.read_error("'global_pooling' requires padding 0 and stride 1", parameter.line)
    op_type = {"MAX": "GlobalMaxPool", "AVE": "GlobalAveragePool"}.get(parameter["pool"])
    if op_type is None or len(ctx.tops) > 1:
        return _pooled(ctx, parameter, Window(ctx.sizes([2, 3])))
    return [ctx.add(op_type, [ctx.x], top=0)]


def _pair(ctx: CaffeLayer, parameter: Message, name: str, short: str) -> list[int]:
    pair = [f"{short}_h", f"{short}_w"]
    given = [each for each in pair if each in parameter]
    if given and (name in parameter or len(given) == 1):
        raise ctx.read_error(
            f"expected {name!r}, or both {pair[0]!r} and {pair[1]!r}", parameter.line_of(given[0])
        )
    if not given and name not in parameter and name == "kernel_size":
        raise ctx.read_error("has no 'kernel_size'", parameter.line)
    return [parameter[each] for each in pair] if given else [parameter[name]] * 2


def _pooled(ctx: CaffeLayer, parameter: Message, window: Window, *, top: int | None = 0) -> list[ir.Value]:
    window.check_fits(ctx, ctx.shape()[2:])
    method = parameter["pool"]
    if method == "STOCHASTIC" and any(window.pads):
        raise ctx.read_error("stochastic pooling has no padding", parameter.line_of("pad"))
    domain, op_type, attributes = pooling_operator(
        method != "MAX",
        kernel=window.kernel,
        strides=window.strides,
        pads=window.onnx_pads,
        rounding="floor" if rounds_down(parameter) else "caffe",
        count_include_pad=bool(parameter.get("avg_include_pad", True)),
    )
    x = ctx.x
    if method == "STOCHASTIC":
        square = ctx.add(op_type, [ctx.add("Mul", [x, x])], attributes, domain=domain)
        mean = ctx.add(op_type, [x], attributes, domain=domain)
        return [ctx.add("Div", [square, ctx.add("Add", [mean, ctx.constant(_SMALLEST)])], top=top)]
    if len(ctx.tops) == 1:
        return [ctx.add(op_type, [x], attributes, domain=domain, top=top)]
    return _with_positions(ctx, domain, op_type, attributes)


def rounds_down(parameter: Message) -> bool:
    """Return whether sizes are rounded down, as BVLC's later versions and other branches can be told."""
    return parameter.get("round_mode", "CEIL") == "FLOOR" or not parameter.get("ceil_mode", True)


def _with_positions(
    ctx: CaffeLayer, domain: str, op_type: str, attributes: dict[str, object]
) -> list[ir.Value]:
    """Add the second top of a maximum pooling: where in its plane each maximum lies, as a float."""
    if op_type != "MaxPool" or domain:
        raise ctx.unsupported(
            "a second top (positions) is supported only for max pooling with the same windows as in ONNX"
        )
    y, positions = ctx.add_many("MaxPool", [ctx.x], attributes, outputs=[ctx.tops[0], ""])
    plane = ctx.constant(ctx.size(2) * ctx.size(3), dtype="int64")
    local = ctx.add("Mod", [positions, plane])
    return [y, ctx.add("Cast", [local], {"to": ir.DataType.FLOAT}, top=1)]


@layer("SPP")
def spatial_pyramid(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Poolings into 1, 2x2, 4x4, ... bins, flattened and put one after the other."""
    parameter = ctx.spec["spp_param"]
    height = parameter["pyramid_height"]
    if not 1 <= height <= 16:
        raise ctx.read_error(f"'pyramid_height' is {height}, expected 1 to 16", parameter.line)
    levels = []
    for level in range(height):
        bins = 2**level
        kernel = [-(-ctx.size(axis) // bins) for axis in (2, 3)]
        pads = [(k * bins - ctx.size(axis) + 1) // 2 for axis, k in zip((2, 3), kernel, strict=True)]
        if any(pad >= size for pad, size in zip(pads, kernel, strict=True)):
            raise ctx.shape_error(f"{ctx.size(2)}x{ctx.size(3)} elements are too few for {bins}x{bins} bins")
        (pooled,) = _pooled(
            ctx, parameter, Window(kernel, strides=kernel, pads=pads), top=0 if height == 1 else None
        )
        if height == 1:
            return [pooled]
        levels.append(ctx.add("Flatten", [pooled], {"axis": 1}))
    return [ctx.add("Concat", levels, {"axis": 1}, top=0)]


# ``BN`` is not BatchNorm: two layers of one name, with scale and shift of their own. SegNet's and ENet's
# has two arrays: to learn it takes the statistics of each batch, in test phase too, and to predict
# (``bn_mode: INFERENCE``) a tool has put the statistics into scale and shift. PSPNet's and TSN's has four,
# as BatchNorm and Scale together. The settings tell them apart.


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


@layer("Normalize")
def normalize(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Divided by the Euclidean norm over the channels of each place, or of all places, then scaled.

    A layer of the SSD branch, ``normalize_layer.cpp``: ``eps`` is inside the root.
    """
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


# Bottoms are x (T, N, ...), cont (T, N), perhaps x_static (N, ...), and with ``expose_hidden`` the initial
# states (1, N, H); tops are the outputs (T, N, H) and with ``expose_hidden`` the last states.


@layer("LSTM", bottoms=(2, 5), tops=(1, 3))
def lstm(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Arrays: x's matrix, bias, (x_static's matrix,) the outputs' matrix; gates i, f, o, g."""
    hidden, has_static, states = _ends(ctx, num_states=2)
    outside = _outside(ctx, 4 * hidden, has_static=has_static)
    weight = ctx.blob(2 + has_static, (4 * hidden, hidden), "weight", _filler(ctx, "weight"))
    names = [*ctx.tops, "", ""][:3]
    inputs = [outside, ctx.bottoms[1], weight, *states]
    return ctx.add_many("CaffeLSTM", inputs, domain=DOMAIN, outputs=names)


@layer("RNN", bottoms=(2, 4), tops=(1, 2))
def rnn(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Arrays: x's matrix, bias, (x_static's matrix,) the states' matrix, the outputs' matrix and bias."""
    hidden, has_static, states = _ends(ctx, num_states=1)
    outside = _outside(ctx, hidden, has_static=has_static)
    weight = ctx.blob(2 + has_static, (hidden, hidden), "weight", _filler(ctx, "weight"))
    inputs = [outside, ctx.bottoms[1], weight, *states]
    names = ["", ctx.tops[1] if len(ctx.tops) > 1 else ""]
    sequence, last = ctx.add_many("CaffeRNN", inputs, domain=DOMAIN, outputs=names)
    output = _product(ctx, sequence, 3 + has_static, hidden, hidden)
    return [ctx.add("Tanh", [_plus_bias(ctx, output, 4 + has_static, hidden)], top=0), last]


def _ends(ctx: CaffeLayer, *, num_states: int) -> tuple[int, bool, Sequence[ir.Value]]:
    """Return the hidden size, whether there is an x_static, and the initial states."""
    parameter = ctx.spec["recurrent_param"]
    exposed = num_states if parameter["expose_hidden"] else 0
    num_inputs = len(ctx.bottoms) - exposed
    if num_inputs not in {2, 3} or len(ctx.tops) != 1 + exposed:
        states = f", and {exposed} states with 'expose_hidden'" if exposed else ""
        raise ctx.read_error(
            f"has {len(ctx.bottoms)} bottoms and {len(ctx.tops)} tops, expected x, cont and perhaps "
            f"x_static, and one output{states}"
        )
    return ctx.positive_field(parameter, "num_output"), num_inputs == 3, ctx.bottoms[num_inputs:]


def _outside(ctx: CaffeLayer, width: int, *, has_static: bool) -> ir.Value:
    """Return what x and x_static give to every step: (T, N, width)."""
    x, size = _flat(ctx, 0, 2)
    total = _plus_bias(ctx, _product(ctx, x, 0, width, size), 1, width)
    if not has_static:
        return total
    static, size = _flat(ctx, 2, 1)
    return ctx.add("Add", [total, _product(ctx, static, 2, width, size)])


def _flat(ctx: CaffeLayer, index: int, axis: int) -> tuple[ir.Value, int]:
    """Return a bottom with its axes from ``axis`` on as one, and the size of that one."""
    rank = ctx.rank(ctx.bottoms[index])
    size = prod(ctx.size(each, ctx.bottoms[index]) for each in range(axis, rank))
    x = ctx.bottoms[index]
    if rank == axis + 1:
        return x, size
    return ctx.add("Reshape", [x, ctx.integers([0] * axis + [size])]), size


def _product(ctx: CaffeLayer, x: ir.Value, blob: int, rows: int, columns: int) -> ir.Value:
    layout = (("transpose", (1, 0)),)
    weight = ctx.blob(blob, (rows, columns), "weight", _filler(ctx, "weight"), layout=layout)
    return ctx.add("MatMul", [x, weight])


def _plus_bias(ctx: CaffeLayer, x: ir.Value, blob: int, size: int) -> ir.Value:
    return ctx.add("Add", [x, ctx.blob(blob, (size,), "bias", _filler(ctx, "bias"))])


def _filler(ctx: CaffeLayer, role: str) -> Message:
    filler: Message = ctx.spec["recurrent_param"][f"{role}_filler"]
    return filler

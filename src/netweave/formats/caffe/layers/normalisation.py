"""LRN, BatchNorm, MVN and SSD's Normalize: ``lrn_layer.cpp``, ``batch_norm_layer.cpp``, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.caffe.call import Call, layer
from netweave.formats.caffe.refused import refuse_fused_relu
from netweave.graph import DOMAIN, Statistics, set_statistics
from netweave.graph.parameters import drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


@layer("LRN")
def local_response(call: Call) -> Sequence[ir.Value]:
    """Local response normalisation across channels, or within each: there ``k`` has no effect."""
    parameter = call.spec["lrn_param"]
    size, alpha, beta = parameter["local_size"], parameter["alpha"], parameter["beta"]
    if size % 2 == 0:
        raise call.wrong(f"'local_size' is {size}, expected an odd number", parameter.line_of("local_size"))
    if len(call.shape()) != 4:
        raise call.wrong_shape(f"needs four axes, found {len(call.shape())}")
    x = call.bottoms[0]
    if parameter["norm_region"] == "ACROSS_CHANNELS":
        attributes = {"size": size, "alpha": alpha, "beta": beta, "bias": parameter["k"]}
        return [call.add("LRN", [x], attributes, top=0)]
    attributes = {"size": size, "alpha": alpha, "beta": beta}
    return [call.add("ChannelLRN", [x], attributes, domain=DOMAIN, top=0)]


@layer("BatchNorm")
def batch_norm(call: Call) -> Sequence[ir.Value]:
    """Normalisation without scale or shift, by stored statistics in test phase."""
    parameter = call.spec["batch_norm_param"]
    refuse_fused_relu(call, parameter)
    _check_rates(call)
    channels = 1 if len(call.shape()) == 1 else call.size(1)
    scale = call.builder.derived(np.ones(channels, np.float32), name=f"{call.layer.key}/scale")
    shift = call.builder.derived(np.zeros(channels, np.float32), name=f"{call.layer.key}/shift")
    mean, variance, count = _statistics(call, channels)
    attributes = {"epsilon": parameter["eps"], "momentum": parameter["moving_average_fraction"]}
    outputs = [call.tops[0]]
    if not parameter.get("use_global_stats", call.phase == "TEST"):
        attributes["training_mode"] = 1
        outputs += ["", ""]
    inputs = [call.bottoms[0], scale, shift, mean, variance]
    made = call.builder.add_many("BatchNormalization", inputs, attributes, outputs=outputs)
    fixed = bool(parameter.get("use_global_stats", False))
    set_statistics(made[0], Statistics(unbiased=True, fixed=fixed, count=count))
    return made[:1]


def _statistics(call: Call, channels: int) -> tuple[ir.Value, ir.Value, str]:
    """Return mean and variance, which are stored as sums, and the key of what divides them: 0 for none."""
    shapes = {"mean": (channels,), "variance": (channels,), "factor": (1,)}
    stored = [call.statistic(index, shape, role) for index, (role, shape) in enumerate(shapes.items())]
    count, factor = stored[2]
    share = np.float32(1 / factor.item() if factor is not None and factor.item() else 0)
    found = []
    for (key, array), (role, shape) in zip(stored[:2], shapes.items(), strict=False):
        values = drawn(key, shape, role) if array is None else array * share
        found.append(call.builder.derived(values, name=key, key=key))
    call.builder.derived(np.ones(1, np.float32) if factor is None else factor, name=count, key=count)
    return found[0], found[1], count


def _check_rates(call: Call) -> None:
    for spec in call.spec["param"]:
        if spec["lr_mult"] != 0:
            raise call.wrong(
                f"its arrays are statistics, not learnt: 'lr_mult' is {spec['lr_mult']:g}, expected 0",
                spec.line,
            )


@layer("MVN")
def mean_variance(call: Call) -> Sequence[ir.Value]:
    """Mean 0 and variance 1 for each image, channel by channel or over all; ``eps`` is outside the root."""
    parameter = call.spec["mvn_param"]
    if len(call.shape()) != 4:
        raise call.wrong_shape(f"needs four axes, found {len(call.shape())}")
    axes = call.constant([1, 2, 3] if parameter["across_channels"] else [2, 3], dtype="int64")
    x, single = call.bottoms[0], not parameter["normalize_variance"]
    centred = call.add("Sub", [x, call.add("ReduceMean", [x, axes])], top=0 if single else None)
    if single:
        return [centred]
    variance = call.add("ReduceMean", [call.add("Mul", [centred, centred]), axes])
    deviation = call.add("Add", [call.add("Sqrt", [variance]), call.constant(parameter["eps"])])
    return [call.add("Div", [centred, deviation], top=0)]


@layer("Normalize")
def normalize(call: Call) -> Sequence[ir.Value]:
    """Divided by the Euclidean norm over the channels of each place, or of all places, then scaled.

    A layer of the SSD branch, ``normalize_layer.cpp``: ``eps`` is inside the root.
    """
    parameter = call.spec["norm_param"]
    shape = call.shape()
    if len(shape) < 2:
        raise call.wrong_shape(f"needs a channel axis, found {len(shape)} axes")
    channels = 1 if parameter["channel_shared"] else call.size(1)
    layout = (("reshape", (channels, *[1] * (len(shape) - 2))),)
    scale = call.blob(0, (channels,), "gamma", parameter.get("scale_filler", None), layout=layout)
    axes = list(range(1, len(shape))) if parameter["across_spatial"] else [1]
    x = call.bottoms[0]
    squares = call.add("ReduceSum", [call.add("Mul", [x, x]), call.constant(axes, dtype="int64")])
    norm = call.add("Sqrt", [call.add("Add", [squares, call.constant(parameter["eps"])])])
    return [call.add("Mul", [call.add("Div", [x, norm]), scale], top=0)]

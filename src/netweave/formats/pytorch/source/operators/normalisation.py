"""Normalisations."""

from __future__ import annotations

from netweave.files.source_code.steps import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.pytorch.source.table import Call, written
from netweave.graph import DOMAIN


@written("BatchNormalization")
def batch_normalization(call: Call) -> Step:
    """By stored statistics; PyTorch's momentum is what ONNX's leaves to 1."""
    channels = call.shape(1)[0]
    names = ("weight", "bias", "running_mean", "running_var")
    state = {name: call.lazily(index) for index, name in enumerate(names, start=1)}
    axes = max(1, call.rank(0) - 2)
    fields = (
        Field("num_features", channels),
        Field("eps", call.get("epsilon", 1e-5), 1e-5),
        Field("momentum", round(1 - call.get("momentum", 0.9), 7), 0.1),
    )
    return call.step("{m}({0})", module=Module(f"nn.BatchNorm{min(axes, 3)}d", fields, state))


@written("InstanceNormalization")
def instance_normalization(call: Call) -> Step:
    """By the statistics of each picture and channel."""
    fields = (
        Field("num_features", call.shape(1)[0]),
        Field("eps", call.get("epsilon", 1e-5), 1e-5),
        Field("affine", True, False),
    )
    state = {"weight": call.lazily(1), "bias": call.lazily(2)}
    return call.step("{m}({0})", module=Module(f"nn.InstanceNorm{call.rank(0) - 2}d", fields, state))


@written("LRN")
def lrn(call: Call) -> Step:
    """Across channels; PyTorch divides alpha by the size, as ONNX does."""
    if call.get("size") % 2 == 0:
        raise Refused("its window has an even size, which PyTorch lays otherwise")
    settings = [call.get("size")] + [
        call.get(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    ]
    size, alpha, beta, bias = map(number, settings)
    return call.step(f"F.local_response_norm({{0}}, {size}, alpha={alpha}, beta={beta}, k={bias})")


@written("ChannelLRN", domain=DOMAIN)
def channel_lrn(call: Call) -> Step:
    """Over a square of places of the same channel (Caffe), for which PyTorch has no function."""
    size, alpha, beta = (call.get(name) for name in ("size", "alpha", "beta"))
    mean = f"F.avg_pool2d({{0}} ** 2, {size}, 1, {size // 2})"
    return call.step(f"{{0}} * (1.0 + {number(alpha)} * {mean}) ** -{number(beta)}", binds=False)


@written("LpNormalization")
def lp_normalization(call: Call) -> Step:
    """To length 1 along an axis."""
    return call.step(f"F.normalize({{0}}, p={float(call.get('p', 2))}, dim={call.get('axis', -1)})")

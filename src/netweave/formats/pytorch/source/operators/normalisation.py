"""Normalisations."""

from __future__ import annotations

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.steps import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.formats.lowering.nodes.arrays import statistics_arrays
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN


@writes("BatchNormalization")
def batch_normalization(node: PyTorchNode) -> Step:
    """By stored statistics; PyTorch's momentum is what ONNX's leaves to 1."""
    channels = node.shape(1)[0]
    names = ("weight", "bias", "running_mean", "running_var")
    state = dict(zip(names, statistics_arrays(node), strict=True))
    axes = max(1, node.rank(0) - 2)
    fields = (
        Field("num_features", channels),
        Field("eps", node.decimal("epsilon"), 1e-5),
        Field("momentum", round(1 - node.get("momentum"), 7), 0.1),
    )
    return node.step("{m}({0})", module=Module(f"nn.BatchNorm{min(axes, 3)}d", fields, state))


@writes("InstanceNormalization")
def instance_normalization(node: PyTorchNode) -> Step:
    """By the statistics of each picture and channel."""
    fields = (
        Field("num_features", node.shape(1)[0]),
        Field("eps", node.decimal("epsilon"), 1e-5),
        Field("affine", True, False),
    )
    state = {"weight": node.lazy_array(1), "bias": node.lazy_array(2)}
    return node.step("{m}({0})", module=Module(f"nn.InstanceNorm{node.rank(0) - 2}d", fields, state))


@writes("LayerNormalization")
def layer_normalization(node: PyTorchNode) -> Step:
    """By the statistics of the last axes of each place."""
    sizes = [size or 0 for size in node.shape(0)[node.axis() :]]
    if 0 in sizes or any(value.uses() for value in node.outputs[1:]):
        raise NotWritable("its sizes are not known, or its mean is read")
    fields = (
        Field("normalized_shape", sizes[0] if len(sizes) == 1 else tuple(sizes)),
        Field("eps", node.decimal("epsilon"), 1e-5),
        Field("bias", node.has(2), True),
    )
    state = {
        name: node.broadcast_array(index, sizes)
        for index, name in ((1, "weight"), (2, "bias"))
        if node.has(index)
    }
    return node.step("{m}({0})", module=Module("nn.LayerNorm", fields, state))


@writes("LRN")
def lrn(node: PyTorchNode) -> Step:
    """Across channels; PyTorch divides alpha by the size, as ONNX does."""
    if node.get("size") % 2 == 0:
        raise NotWritable("its window has an even size, which PyTorch lays otherwise")
    form = "F.local_response_norm({0}, <size>, alpha=<alpha>, beta=<beta>, k=<bias>)"
    return node.step(node.with_settings(form))


@writes("ChannelLRN", domain=DOMAIN)
def channel_lrn(node: PyTorchNode) -> Step:
    """Over a square of places of the same channel (Caffe), for which PyTorch has no function."""
    size, alpha, beta = (node.get(name) for name in ("size", "alpha", "beta"))
    mean = f"F.avg_pool2d({{0}} ** 2, {size}, 1, {size // 2})"
    return node.step(f"{{0}} * (1.0 + {number(alpha)} * {mean}) ** -{number(beta)}", binds=False)


@writes("LpNormalization")
def lp_normalization(node: PyTorchNode) -> Step:
    """To length 1 along an axis."""
    return node.step(f"F.normalize({{0}}, p={float(node.get('p', 2))}, dim={node.get('axis', -1)})")

"""Elementwise operators as PyTorch's."""

from __future__ import annotations

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.formats.lowering.nodes.arrays import by_operator, channel_slopes, clip_bounds, statistics_arrays
from netweave.formats.pytorch.source.operators.windows import biased_linear
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN

_FUNCTIONS = by_operator(
    (
        *("torch.abs", "torch.ceil", "torch.cos", "torch.erf", "torch.exp", "torch.floor", "torch.log"),
        *("torch.reciprocal", "torch.round", "torch.sigmoid", "torch.sign", "torch.sin", "torch.sqrt"),
        *("torch.tanh", "F.mish", "F.relu", "F.softplus", "F.softsign"),
    )
) | {"HardSwish": "F.hardswish"}


_EXPRESSIONS = {
    **{op_type: f"{name}({{0}})" for op_type, name in _FUNCTIONS.items()},
    "Dropout": "{0}",
    "Elu": "F.elu({0}, <alpha>)",
    "HardSigmoid": "torch.clamp(<alpha> * {0} + <beta>, 0.0, 1.0)",
    "Identity": "{0}",
    "LeakyRelu": "F.leaky_relu({0}, <alpha>)",
}


@writes(*_EXPRESSIONS)
def plain(node: PyTorchNode) -> Step:
    """A function with its settings."""
    return node.step(node.with_settings(_EXPRESSIONS[node.op_type]))


@writes("Gelu")
def gelu(node: PyTorchNode) -> Step:
    """By the error function, or by a tangent close to it."""
    is_exact = node.get("approximate") == "none"
    return node.step("F.gelu({0})" if is_exact else 'F.gelu({0}, approximate="tanh")')


@writes("Neg")
def neg(node: PyTorchNode) -> Step:
    """The number with its sign changed."""
    return node.step("-{0}", binds=False)


@writes("PRelu")
def prelu(node: PyTorchNode) -> Step:
    """A stored slope below 0, one or one for each channel."""
    count, slopes = channel_slopes(node)
    module = Module("nn.PReLU", (Field("num_parameters", count, 1),), {"weight": slopes})
    return node.step("{m}({0})", module=module)


@writes("Clip")
def clip(node: PyTorchNode) -> Step:
    """Bounds below and above."""
    bounds = [None if bound is None else number(bound) for bound in clip_bounds(node)]
    if bounds == ["0.0", "6.0"]:
        return node.step("F.relu6({0})")
    shown = [f"{name}={bound}" for name, bound in zip(("min", "max"), bounds, strict=True) if bound]
    return node.step(f"torch.clamp({{0}}, {', '.join(shown)})" if shown else "{0}")


@writes("Softmax", "LogSoftmax")
def softmax(node: PyTorchNode) -> Step:
    """Over one axis."""
    axis = node.get("axis")
    shown = axis - node.rank(0) if axis == node.rank(0) - 1 and axis > 1 else axis
    return node.step(f"F.{'softmax' if node.op_type == 'Softmax' else 'log_softmax'}({{0}}, {shown})")


_TYPES = {"FLOAT": "torch.float32", "INT64": "torch.int64", "INT32": "torch.int32", "BOOL": "torch.bool"}


@writes("Cast")
def cast(node: PyTorchNode) -> Step:
    """Another element type."""
    import onnx_ir as ir

    name = ir.DataType(node.get("to")).name
    if name not in _TYPES:
        raise NotWritable(f"a cast to {name} is not written")
    return node.step(f"{{0}}.to({_TYPES[name]})")


_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_PAIRS = {"Max": "torch.maximum", "Min": "torch.minimum"}


@writes(*_SIGNS)
def sign(node: PyTorchNode) -> Step:
    """Two operands with a sign between them, or a dense layer with the bias that is added to it."""
    if node.op_type == "Add" and (dense := biased_linear(node)) is not None:
        return dense
    return _pair(node, f"<left> {_SIGNS[node.op_type]} <right>")


@writes("Pow")
def power(node: PyTorchNode) -> Step:
    """A power."""
    return _pair(node, "<left> ** <right>")


def _pair(node: PyTorchNode, form: str) -> Step:
    left, read, module = node.operand(0, 0)
    right, more, other = node.operand(1, len(read))
    if module and other:
        raise NotWritable("both its operands are stored")
    template = form.replace("<left>", left).replace("<right>", right)
    return node.step(template, inputs=[*read, *more], module=module or other, binds=False)


@writes("Sum", "Max", "Min")
def several(node: PyTorchNode) -> Step:
    """A sum, maximum or minimum of several values."""
    numbers = list(range(node.num_inputs))
    if any(node.is_stored(index) for index in numbers):
        if len(numbers) == 2 and node.op_type == "Sum":
            return _pair(node, "<left> + <right>")
        raise NotWritable("one of its inputs is stored")
    places = [f"{{{index}}}" for index in numbers]
    if node.op_type == "Sum":
        return node.step(" + ".join(places), inputs=numbers, binds=len(numbers) == 1)
    text = places[0]
    for place in places[1:]:
        text = f"{_PAIRS[node.op_type]}({text}, {place})"
    return node.step(text, inputs=numbers)


_REDUCTIONS = {
    "ReduceMean": "{0}.mean(<axes><keep>)",
    "ReduceSum": "{0}.sum(<axes><keep>)",
    "ReduceMax": "{0}.amax(<axes><keep>)",
    "ReduceMin": "{0}.amin(<axes><keep>)",
    "ReduceSumSquare": "{0}.square().sum(<axes><keep>)",
    "ReduceL2": "torch.linalg.vector_norm({0}, dim=<axes><keep>)",
}


@writes(*_REDUCTIONS)
def reduction(node: PyTorchNode) -> Step:
    """Over some axes, or all."""
    if node.has(1):
        axes = node.ints(1)
    elif node.get("noop_with_empty_axes"):
        return node.step("{0}")
    else:
        axes = list(range(node.rank(0)))
    keep = ", keepdim=True" if node.get("keepdims") else ""
    shown = repr(axes[0]) if len(axes) == 1 else repr(tuple(axes))
    template = _REDUCTIONS[node.op_type].replace("<axes>", shown).replace("<keep>", keep)
    return node.step(template)


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

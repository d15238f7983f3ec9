"""Activations, and operators that say the same of every element."""

from __future__ import annotations

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.steps import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.formats.lowering.nodes.arrays import channel_slopes, clip_bounds
from netweave.formats.lowering.nodes.names import by_operator
from netweave.formats.pytorch.source.table import PyTorchNode, writes

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

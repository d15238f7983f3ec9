"""Activations, and operators that say the same of every element."""

from __future__ import annotations

from netweave.files.source_code.steps import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.pytorch.source.table import Call, written

_CALLS = {
    "Abs": "torch.abs({0})",
    "Ceil": "torch.ceil({0})",
    "Cos": "torch.cos({0})",
    "Erf": "torch.erf({0})",
    "Exp": "torch.exp({0})",
    "Floor": "torch.floor({0})",
    "HardSwish": "F.hardswish({0})",
    "Log": "torch.log({0})",
    "Mish": "F.mish({0})",
    "Reciprocal": "torch.reciprocal({0})",
    "Relu": "F.relu({0})",
    "Round": "torch.round({0})",
    "Sigmoid": "torch.sigmoid({0})",
    "Sign": "torch.sign({0})",
    "Sin": "torch.sin({0})",
    "Softplus": "F.softplus({0})",
    "Softsign": "F.softsign({0})",
    "Sqrt": "torch.sqrt({0})",
    "Tanh": "torch.tanh({0})",
}


@written(*_CALLS)
def plain(call: Call) -> Step:
    """A function without settings."""
    return call.step(_CALLS[call.node.op_type])


@written("Neg")
def neg(call: Call) -> Step:
    """The number with its sign changed."""
    return call.step("-{0}", binds=False)


@written("LeakyRelu")
def leaky_relu(call: Call) -> Step:
    """A slope below 0."""
    return call.step(f"F.leaky_relu({{0}}, {number(call.get('alpha', 0.01))})")


@written("Elu")
def elu(call: Call) -> Step:
    """An exponential below 0."""
    return call.step(f"F.elu({{0}}, {number(call.get('alpha', 1.0))})")


@written("Gelu")
def gelu(call: Call) -> Step:
    """By the error function or by its approximation."""
    return call.step(f'F.gelu({{0}}, approximate="{call.get("approximate", "none")}")')


@written("HardSigmoid")
def hard_sigmoid(call: Call) -> Step:
    """A line between 0 and 1."""
    alpha, beta = number(call.get("alpha", 0.2)), number(call.get("beta", 0.5))
    return call.step(f"torch.clamp({alpha} * {{0}} + {beta}, 0.0, 1.0)")


@written("PRelu")
def prelu(call: Call) -> Step:
    """A stored slope below 0, one or one for each channel."""
    slope = call.lazily(1)
    sizes = [size for size in call.shape(1) if size != 1]
    count = sizes[0] if sizes else 1
    if len(sizes) > 1 or (count != 1 and count != call.shape(0)[1]):
        raise Refused("its slopes are not one for each channel")
    module = Module("nn.PReLU", (Field("num_parameters", count, 1),), {"weight": lambda: slope().reshape(-1)})
    return call.step("{m}({0})", module=module)


@written("Clip")
def clip(call: Call) -> Step:
    """Bounds below and above."""
    bounds = [number(call.constant(index).reshape(-1)[0]) if call.has(index) else None for index in (1, 2)]
    if bounds == ["0.0", "6.0"]:
        return call.step("F.relu6({0})")
    shown = [f"{name}={bound}" for name, bound in zip(("min", "max"), bounds, strict=True) if bound]
    return call.step(f"torch.clamp({{0}}, {', '.join(shown)})")


@written("Softmax", "LogSoftmax")
def softmax(call: Call) -> Step:
    """Over one axis."""
    axis = call.get("axis", -1)
    shown = axis - call.rank(0) if axis == call.rank(0) - 1 and axis > 1 else axis
    return call.step(f"F.{'softmax' if call.node.op_type == 'Softmax' else 'log_softmax'}({{0}}, {shown})")


@written("Identity", "Dropout")
def identity(call: Call) -> Step:
    """What comes in."""
    return call.step("{0}")


_TYPES = {"FLOAT": "torch.float32", "INT64": "torch.int64", "INT32": "torch.int32", "BOOL": "torch.bool"}


@written("Cast")
def cast(call: Call) -> Step:
    """Another element type."""
    import onnx_ir as ir

    name = ir.DataType(call.get("to")).name
    if name not in _TYPES:
        raise Refused(f"a cast to {name} is not written")
    return call.step(f"{{0}}.to({_TYPES[name]})")

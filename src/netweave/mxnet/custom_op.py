"""``mx.operator.CustomOp`` and ``CustomOpProp``: operators of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import onnx_ir as ir
import torch

from netweave.errors import RunError, UsageError
from netweave.formats.mxnet.symbol.context import MXNetOperator
from netweave.formats.mxnet.symbol.registry import READERS, OperatorReader
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.graph import DOMAIN, Effect, Operator, register_operator
from netweave.mxnet import recording
from netweave.mxnet.context import context_of
from netweave.mxnet.ndarray.array import NDArray, numpy_type

ENTRY = "MXNetCustom"
"""The operator's name in a Graph."""


class CustomOp:
    """The computation: a subclass has ``forward`` and ``backward``, which call ``assign`` for each output."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Compute the outputs."""
        raise NotImplementedError

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        """Compute the gradients of the inputs; zero where it is not written."""

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write, or add, to an array as ``req`` says."""
        if req in {"write", "inplace"}:
            dst[:] = src
        elif req == "add":
            dst[:] = dst + src


class CustomOpProp:
    """Inputs and outputs of an operator: a subclass has ``create_operator`` and overrides what differs.

    Args:
        need_top_grad: Whether the gradient of its output is looked at; a loss does not.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> list[str]:
        """Return the names of its inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Return the names of its outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of its auxiliary states."""
        return []

    def infer_shape(self, in_shape: Any) -> Any:
        """Return sizes of inputs, outputs and auxiliary states."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: Any) -> Any:
        """Return element types of inputs, outputs and auxiliary states."""
        return in_type, [in_type[0]] * len(self.list_outputs()), []

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        """As MXNet has it; everything is kept here."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        """Return what computes."""
        return CustomOp()


_PROPS: dict[str, Callable[..., CustomOpProp]] = {}

P = TypeVar("P", bound="Callable[..., CustomOpProp]")


def register(reg_name: str) -> Callable[[P], P]:
    """Make an operator known by a name: ``mx.sym.Custom(..., op_type=reg_name)``."""

    def enter(klass: P) -> P:
        _PROPS[reg_name] = klass
        _prop.cache_clear()
        _instance.cache_clear()
        return klass

    return enter


def get_all_registered_operators() -> list[str]:
    """Return the names of all operators."""
    return sorted({*READERS, *_PROPS})


@lru_cache(maxsize=1024)
def _prop(op_type: str, settings: str) -> CustomOpProp:
    if op_type not in _PROPS:
        known = ", ".join(sorted(_PROPS)) or "none"
        raise UsageError(
            f"no custom operator {op_type!r} is registered; there are: {known}; decorate its "
            "CustomOpProp with @mx.operator.register"
        )
    return _PROPS[op_type](**json.loads(settings))


@lru_cache(maxsize=1024)
def _instance(op_type: str, settings: str, node: str, facts: tuple[Any, ...]) -> CustomOp:
    """Return what computes a node, which may keep something from forward to backward."""
    shapes, types, context = facts
    return _prop(op_type, settings).create_operator(context, [list(one) for one in shapes], list(types))


def _operator(tensors: Sequence[torch.Tensor], op_type: str, settings: str, node: str) -> CustomOp:
    shapes = tuple(tuple(one.shape) for one in tensors)
    types = tuple(numpy_type(one.dtype) for one in tensors)
    return _instance(op_type, settings, node, (shapes, types, context_of(tensors[0].device)))


def _out_shapes(shapes: Sequence[Any], op_type: str, settings: str) -> list[tuple[int, ...]]:
    prop = _prop(op_type, settings)
    inferred = prop.infer_shape([list(one) for one in shapes[: len(prop.list_arguments())]])
    return [tuple(one) for one in inferred[1]]


def _split(
    inputs: Sequence[torch.Tensor], op_type: str, settings: str
) -> tuple[Sequence[torch.Tensor], list[NDArray]]:
    """Return the inputs, and the auxiliary states behind them, which the operator changes in place."""
    count = len(_prop(op_type, settings).list_arguments())
    # .data, so that autograd does not take the change for one of a value that it has kept
    return inputs[:count], [NDArray(one.data) for one in inputs[count:]]


def _forward(*inputs: torch.Tensor, op_type: str, settings: str, node: str) -> list[torch.Tensor]:
    shapes = _out_shapes([one.shape for one in inputs], op_type, settings)
    outputs = [NDArray(inputs[0].new_zeros(shape)) for shape in shapes]
    given, states = _split(inputs, op_type, settings)
    own = _operator(given, op_type, settings, node)
    arrays = [NDArray(one.detach()) for one in given]
    with recording.modes(recording=False, training=None):
        own.forward(recording.is_training(), ["write"] * len(outputs), arrays, outputs, states)
    return [one.tensor for one in outputs]


def _gradient(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    above: Any,
    op_type: str,
    settings: str,
    node: str,
) -> list[torch.Tensor]:
    given, states = _split(inputs, op_type, settings)
    own = _operator(given, op_type, settings, node)
    heads = above if isinstance(above, list) else [above]
    grads = [NDArray(torch.zeros_like(one)) for one in given]
    top, in_data, out_data = ([NDArray(one.detach()) for one in row] for row in (heads, given, outputs))
    with recording.modes(recording=False, training=None):
        own.backward(["write"] * len(grads), top, in_data, out_data, grads, states)
    return [*(one.tensor for one in grads), *(torch.zeros_like(one) for one in inputs[len(given) :])]


def _numpy_only(inputs: Any, attributes: Any) -> Any:
    raise RunError("a CustomOp runs on torch only; run the net with mx.mod, or with backend 'torch'")


def _shape_rule(given: Sequence[Any], attributes: Any) -> list[tuple[Any, ...]]:
    return [tuple(one) for one in _out_shapes(given, attributes["op_type"], attributes["settings"])]


register_operator(
    Operator(
        op_type=ENTRY,
        shapes=_shape_rule,
        forward=_numpy_only,
        effects=frozenset({Effect.WORLD}),
        source="MXNet's CustomOp",
        tensor_forward=_forward,
        tensor_gradient=_gradient,
        defaults={"op_type": "", "settings": "{}", "node": ""},
    )
)


def _own_settings(settings: Settings) -> str:
    own = {
        key: text
        for key, text in settings.texts().items()
        if key != "op_type" and not (key.startswith("__") and key.endswith("__"))
    }
    return json.dumps(own, sort_keys=True)


def _of(settings: Settings) -> CustomOpProp:
    return _prop(settings.string("op_type"), _own_settings(settings))


def _arguments(settings: Settings) -> Sequence[str]:
    prop = _of(settings)
    return [*prop.list_arguments(), *prop.list_auxiliary_states()]


def _read(ctx: MXNetOperator) -> ir.Value | Sequence[ir.Value]:
    own, op_type = _own_settings(ctx.settings), ctx.settings.string("op_type")
    ctx.settings.ignore(*ctx.settings.texts())
    prop = _prop(op_type, own)
    names, states = prop.list_arguments(), prop.list_auxiliary_states()
    known = [ctx.known_sizes(name) for name in names]
    asked, _, *of_states = prop.infer_shape([list(sizes or ()) for sizes in known])
    values = [
        ctx.input(name, default=tuple(sizes or wanted) or None)
        for name, sizes, wanted in zip(names, known, asked, strict=True)
    ]
    sizes_of_states = of_states[0] if of_states else []
    if len(sizes_of_states) != len(states):
        raise UsageError(
            f"{ctx.place}: infer_shape of {op_type!r} returns the sizes of {len(sizes_of_states)} auxiliary "
            f"states, expected {len(states)}: {', '.join(states)}"
        )
    values += [
        ctx.parameter(name, tuple(sizes), role="mean")
        for name, sizes in zip(states, sizes_of_states, strict=True)
    ]
    attributes = {"op_type": op_type, "settings": own, "node": ctx.place}
    outputs = len(prop.list_outputs())
    return ctx.add_many(ENTRY, values, attributes, outputs=outputs, domain=DOMAIN)


READERS["Custom"] = OperatorReader(
    _read,
    _arguments,
    count=lambda settings: len(_of(settings).list_outputs()),
    states=lambda settings: _of(settings).list_auxiliary_states(),
)

"""Table of operators in torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from netweave.deferred import Table
from netweave.errors import RunError
from netweave.graph import DOMAIN, Effect, Operator, find_operator

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.node_memory import OperatorState
    from netweave.runtime.backends.torch.random import Draws


# The function's signature is the operator's: positional arguments are its inputs (None for an optional one
# that is left out), keyword arguments its attributes with ONNX's defaults. How an input arrives is said by
# its annotation: a ``Tensor`` as it is, ``Ints`` and ``Numbers`` as tuples of Python numbers and ``Number``
# as one (these are known while lowering if they are constants of the net, read off the tensor otherwise).
#
# Some keywords are no attributes: ``num_outputs`` is how many outputs the node has, ``training`` whether
# the net is in training mode, ``memory`` what the node keeps from call to call, those of
# ``graph.Statistics`` its rule, ``draws`` and ``stream`` where it draws random numbers, ``batch`` the
# whole batch, where what is computed is a part of one, and ``kernels`` what multiplies matrices. A function
# whose return type is a tuple gives all outputs, any other the first.
#
# To add one: write ``@lowering("Name", since=version)`` over the function in the file of its family, one of
# ``FAMILIES``.
# ``since`` is the first version of the operator with this meaning.

_DTYPES = {
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.UINT8: torch.uint8,
    ir.DataType.INT8: torch.int8,
    ir.DataType.UINT16: torch.uint16,
    ir.DataType.INT16: torch.int16,
    ir.DataType.INT32: torch.int32,
    ir.DataType.INT64: torch.int64,
    ir.DataType.BOOL: torch.bool,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.DOUBLE: torch.float64,
    ir.DataType.UINT32: torch.uint32,
    ir.DataType.UINT64: torch.uint64,
    ir.DataType.COMPLEX64: torch.complex64,
    ir.DataType.COMPLEX128: torch.complex128,
    ir.DataType.BFLOAT16: torch.bfloat16,
}


def torch_dtype(dtype: int) -> torch.dtype:
    """Return torch's element type for ONNX's number.

    Raises:
        RunError: torch has no such type.
    """
    known = _DTYPES.get(ir.DataType(dtype))
    if known is None:
        raise RunError(f"torch has no element type for ONNX's {ir.DataType(dtype).name}")
    return known


Ints = tuple[int, ...]
"""An input that arrives as Python integers: sizes, axes, positions."""

Numbers = tuple[float, ...]
"""An input that arrives as Python floats: scales."""

Number = int | float
"""An input of one element that arrives as a Python number."""

INJECTED = frozenset(
    {
        *("num_outputs", "training", "memory", "unbiased", "fixed", "count", "draws", "stream", "batch"),
        *("kernels", "ties"),
    }
)
"""Keywords of a lowering that are no attributes of the operator."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Lowering:
    """One operator's way to torch.

    Attributes:
        domain: ``""`` for standard operators.
        op_type: The operator's name.
        since: First version of the operator that this holds for.
        function: Computes it.
        inputs: How each input arrives: ``tensor``, ``ints``, ``numbers`` or ``number``.
        variadic: Whether the last input stands for any number of further ones.
        attributes: Defaults of the attributes by name; ``inspect.Parameter.empty`` if there is none.
        injected: Which of ``INJECTED`` the function takes.
        many: Whether the function gives a tuple of all outputs.
        in_place: The same, writing over its first input; None if there is no such function. Which nodes may
            is said by ``memory_plan.overwrites``.
    """

    domain: str
    op_type: str
    since: int
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    variadic: bool
    attributes: Mapping[str, Any]
    injected: frozenset[str]
    many: bool
    in_place: Callable[..., Any] | None = None

    @property
    def in_inference(self) -> Callable[..., Any]:
        """Implementation that may overwrite its input; not for training."""
        return _in_inference(self.function, self.in_place) if self.in_place else self.function

    @property
    def name(self) -> str:
        """Name with domain and version, as in messages: ``Conv-11``, ``netweave::MaxPool-1``."""
        return operator_name(self.domain, self.op_type, self.since)

    def arrival(self, index: int) -> str:
        """Return how the input at ``index`` arrives."""
        return self.inputs[min(index, len(self.inputs) - 1)]


FAMILIES = (
    *("attention", "connections", "convolution", "detection", "elementwise", "losses", "normalisation"),
    *("pooling", "quantization", "random", "recurrent", "reduction", "regions", "resize", "shape", "signal"),
)
"""The files of the families of operators."""

_LOWERINGS = Table[tuple[str, str], list["Lowering"]](__package__, FAMILIES)


def operator_name(domain: str, op_type: str, version: int) -> str:
    """Return an operator's name as in messages; the domain of ONNX itself is left out."""
    return f"{domain}::{op_type}-{version}" if domain else f"{op_type}-{version}"


@cache
def _in_inference(function: Callable[..., Any], in_place: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*arguments: Any, **keywords: Any) -> Any:
        return (function if torch.is_grad_enabled() else in_place)(*arguments, **keywords)

    computed.__name__ = f"{function.__name__}_in_inference"  # read in the code that fx writes
    computed.with_gradients = function  # type: ignore[attr-defined]  # read by with_gradients
    return computed


def with_gradients(target: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a node computes while gradients are recorded, which writes over nothing that is kept."""
    function: Callable[..., Any] = getattr(target, "with_gradients", target)
    return function


def lowering(
    op_type: str, *, since: int, domain: str = "", in_place: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """Register the decorated function as an operator's lowering from version ``since`` on.

    Args:
        op_type: The operator's name.
        since: First version of the operator that this holds for.
        domain: ``""`` for standard operators.
        in_place: The same, writing over its first input.
    """

    def add(function: F) -> F:
        row = _described(domain, op_type, since, function)
        add_lowering(replace(row, in_place=in_place))
        return function

    return add


def lower_to(
    function: Callable[..., Any],
    op_type: str,
    *,
    since: int,
    num_inputs: int,
    in_place: Callable[..., Any] | None = None,
) -> None:
    """Register one of torch's own functions, which takes tensors and no attributes, as a lowering."""
    add_lowering(
        Lowering(
            domain="",
            op_type=op_type,
            since=since,
            function=function,
            inputs=("tensor",) * num_inputs,
            variadic=False,
            attributes={},
            injected=frozenset(),
            many=False,
            in_place=in_place,
        )
    )


def add_lowering(row: Lowering) -> None:
    """Enter a lowering in the table."""
    rows = _LOWERINGS.enter((row.domain, row.op_type), list)
    assert all(other.since != row.since for other in rows), f"{row.name} is lowered twice"
    rows.append(row)


def find_lowering(domain: str, op_type: str, version: int) -> Lowering | None:
    """Return the newest lowering that is not above the operator set's version, if there is one."""
    rows = _LOWERINGS.get((_plain(domain), op_type), [])
    return max((row for row in rows if row.since <= version), key=lambda row: row.since, default=None)


def all_lowerings() -> list[Lowering]:
    """Return every lowering, by domain, name and version."""
    rows = [row for group in _LOWERINGS.values() for row in group]
    return sorted(rows, key=lambda row: (row.domain, row.op_type, row.since))


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _described(domain: str, op_type: str, since: int, function: Callable[..., Any]) -> Lowering:
    inputs, attributes, injected, variadic = [], {}, set(), False
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.name in INJECTED:
                injected.add(parameter.name)
            else:
                attributes[parameter.name] = parameter.default
            continue
        inputs.append(_arrival(str(parameter.annotation)))
        variadic = parameter.kind is parameter.VAR_POSITIONAL
    return Lowering(
        domain=_plain(domain),
        op_type=op_type,
        since=since,
        function=function,
        inputs=tuple(inputs),
        variadic=variadic,
        attributes=attributes,
        injected=frozenset(injected),
        many=str(signature.return_annotation).startswith("tuple"),
    )


def _arrival(annotation: str) -> str:
    kind = annotation.split(" | ")[0]
    return {"Ints": "ints", "Numbers": "numbers", "Number": "number"}.get(kind, "tensor")


def registered_lowering(op_type: str, *, num_inputs: int) -> Lowering:
    """Return the lowering of an operator of the registry: its tensor forward, or its NumPy one.

    Torch differentiates a tensor forward without a gradient of its own; nothing else is.
    """
    entry = find_operator(op_type)
    injected = {"memory", "training"} if entry.state is not None else set()
    if Effect.RANDOM in entry.effects:
        injected |= {"draws", "stream"}
    return Lowering(
        domain=DOMAIN,
        op_type=op_type,
        since=1,
        function=_function(entry),
        inputs=("tensor",) * num_inputs,
        variadic=False,
        attributes=entry.defaults,
        injected=frozenset(injected),
        many=True,
    )


def _function(entry: Operator) -> Callable[..., tuple[Tensor, ...]]:
    plain = entry.tensor_forward is not None and entry.tensor_gradient is None

    def compute(
        *inputs: Tensor,
        memory: OperatorState | None = None,
        training: bool = False,
        draws: Draws | None = None,
        stream: int = 0,
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        if draws is not None:
            draws.seed_torch(stream)
        if memory is not None:
            attributes["state"] = memory.given(training=training)
        if not plain:
            made: tuple[Tensor, ...] = _Registered.apply(entry, attributes, *inputs)
            return made
        assert entry.tensor_forward is not None
        outputs = entry.tensor_forward(*inputs, **attributes)
        return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)

    compute.__name__ = f"own_{entry.op_type}"
    return compute


class _Registered(torch.autograd.Function):
    """A forward and a gradient that torch does not look into; each is called once for each time it is due."""

    @staticmethod
    def forward(ctx: Any, entry: Operator, attributes: dict[str, Any], *inputs: Tensor) -> tuple[Tensor, ...]:
        if entry.tensor_forward is not None:
            made = entry.tensor_forward(*inputs, **attributes)
            outputs = tuple(made) if isinstance(made, tuple | list) else (made,)
        else:
            arrays = entry.forward([_array(tensor) for tensor in inputs], attributes)
            outputs = tuple(_tensor(array, *inputs[:1]) for array in arrays)
        ctx.entry, ctx.attributes, ctx.num_inputs = entry, attributes, len(inputs)
        ctx.save_for_backward(*inputs, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        entry, saved = ctx.entry, ctx.saved_tensors
        inputs, outputs = saved[: ctx.num_inputs], saved[ctx.num_inputs :]
        if entry.tensor_gradient is not None:
            given = above[0] if len(above) == 1 else list(above)
            settings = {name: value for name, value in ctx.attributes.items() if name != "state"}
            made = entry.tensor_gradient(list(inputs), list(outputs), given, **settings)
            gradients = list(made) if isinstance(made, tuple | list) else [made]
        elif entry.gradient is not None:
            arrays = ([_array(t) for t in tensors] for tensors in (inputs, outputs, above))
            gradients = [_gradient(a, inputs[0]) for a in entry.gradient(*arrays, ctx.attributes)]
        else:
            raise RunError(
                f"operator {entry.op_type!r} has no gradient; give gradient=..., or write its forward on "
                "torch tensors (arrays='torch')"
            )
        return (None, None, *_checked(entry, gradients, inputs))


def _checked(
    entry: Operator, found: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    shapes = [None if tensor is None else tuple(tensor.shape) for tensor in found]
    wanted = [tuple(tensor.shape) for tensor in inputs]
    if len(shapes) != len(wanted) or any(s not in {None, w} for s, w in zip(shapes, wanted, strict=True)):
        raise RunError(f"operator {entry.op_type!r}: its gradient returns {shapes}, expected {wanted}")
    return found


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def _tensor(array: np.ndarray, like: Tensor | None = None) -> Tensor:
    """Return an array as a tensor of its own where another one is, of its floating-point type."""
    made = torch.from_numpy(np.array(array, order="C"))
    if like is None:
        return made
    return made.to(like.device, like.dtype if made.is_floating_point() else None)


def _gradient(array: np.ndarray | None, like: Tensor) -> Tensor | None:
    return None if array is None else _tensor(np.asarray(array), like)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.factor * above, None


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """Return ``x``, whose gradient is multiplied with a factor; 0 is none at all."""
    made: Tensor = x.detach() if factor == 0 else _Scaled.apply(x, factor)
    return made


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, gradient: Tensor, times_above: bool) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.times_above = times_above
        return y

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * above if ctx.times_above else gradient, None, None, None


def with_gradient(x: Tensor, y: Tensor, gradient: Tensor, *, times_above: bool) -> Tensor:
    """Return ``y``, which sends ``gradient`` to ``x``.

    Args:
        x: What the value is made from.
        y: The value; no gradient flows through it otherwise.
        gradient: Of the shape of ``x``.
        times_above: Multiply with the gradient from above, which must broadcast to it; otherwise that
            counts for nothing.
    """
    made: Tensor = _WithGradient.apply(x, y.detach(), gradient.detach(), times_above)
    return made


def needs_gradient(x: Tensor) -> bool:
    """Return whether a gradient for a tensor can be asked for later."""
    return bool(x.requires_grad and torch.is_grad_enabled())

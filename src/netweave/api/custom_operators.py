"""Operators of the user's own: one decorator makes a function an operator of symbols, Graphs and runtimes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.context import MXNetOperator
from netweave.formats.mxnet.symbol.registry import READERS, OperatorReader
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.formats.mxnet.symbol.symbol import Symbol, operator_function
from netweave.graph import DOMAIN, Effect, Operator, find_operator, is_registered, register_operator
from netweave.graph.operators import Attributes, Dim
from netweave.runtime.backends.runner import TORCH

Shapes = Callable[..., Any]
"""``(shape of each input, attributes as keywords) -> shape of the output``, or a list of shapes."""

ARRAYS = ("numpy", TORCH)


@dataclass(frozen=True, slots=True)
class CustomOperator:
    """An operator that the decorator made from a function.

    Called with symbols it makes a symbol, called with arrays it computes.

    Attributes:
        name: Its name.
        function: The function.
        inputs: Names of its inputs.
        attributes: Its attributes by name, with their defaults.
        num_outputs: How many outputs it has.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    num_outputs: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the operator to symbols, or compute it."""
        if not self.inputs or any(isinstance(value, Symbol) for value in [*args, *kwargs.values()]):
            return operator_function(self.name)(*args, **kwargs)
        return self.function(*args, **kwargs)


def operator(
    name: str | None = None,
    *,
    shapes: Shapes,
    gradient: Callable[..., Any] | None = None,
    effects: Sequence[Effect | str] = (),
    arrays: str = "numpy",
    num_outputs: int = 1,
    state: Callable[[], Mapping[str, Any]] | None = None,
) -> Callable[[Callable[..., Any]], CustomOperator]:
    """Make the decorated function an operator, of the domain ``netweave``.

    Its positional parameters are the inputs, its keyword-only ones the attributes, with defaults that are
    numbers, texts, truth values, or tuples of whole numbers. It returns an array, or ``num_outputs`` of them.

        @operator(shapes=lambda x: x, gradient=lambda inputs, outputs, above: above * (inputs[0] > 0))
        def rectify(x):
            return np.maximum(x, 0)

    It is called once for each run of the net if it has effects: it is never merged with its like, computed
    ahead, or kept. One without inputs is a source: its function fetches something, which counts as an effect,
    and to call it makes a symbol.

    Args:
        name: Its name; the function's by default.
        shapes: Shape of the output (or a list of several) from those of the inputs, with the attributes as
            keywords; raises ``ValueError`` with the reason if they do not fit.
        gradient: Gradients of the inputs (one, or one for each; None for none) from the lists of inputs,
            outputs, and gradients of outputs (just the one if there is one), with the attributes as keywords.
            Without it a function of torch tensors is differentiated by torch, one of NumPy arrays not at all.
        effects: What it does besides computing: ``random``, ``stateful``, ``world``.
        arrays: What the function and its gradient take and give: ``numpy`` or ``torch``.
        num_outputs: How many outputs it has.
        state: Makes the arrays (or tensors) by name that each node of it keeps from call to call. The
            function takes them as the keyword-only parameter ``state``, a dictionary, and changes or
            replaces them. They are in checkpoints. In test mode it is given copies.

    Raises:
        UsageError: The name is taken by an operator of Netweave's, or a parameter is of no such kind.
    """
    if arrays not in ARRAYS:
        raise UsageError(f"arrays is {arrays!r}, expected {' or '.join(ARRAYS)}")

    def register(function: Callable[..., Any]) -> CustomOperator:
        op = name or function.__name__
        inputs, attributes = _parameters(function, op, has_state=state is not None)
        kept = {Effect.STATEFUL} if state is not None else set()
        if not inputs and not effects:
            kept.add(Effect.WORLD)
        _check_name(op)
        entry = Operator(
            op_type=op,
            shapes=_shape_rule(shapes, num_outputs),
            forward=_forward(function, arrays, state),
            gradient=_gradient(gradient) if gradient and arrays == "numpy" else None,
            effects=frozenset({*kept, *map(_effect, effects)}),
            source=_OWN,
            tensor_forward=function if arrays == TORCH else None,
            tensor_gradient=gradient if arrays == TORCH else None,
            state=state,
            defaults=attributes,
        )
        register_operator(entry)
        read = _reader(inputs, attributes, num_outputs)
        READERS[op] = OperatorReader(read, inputs, count=lambda settings: num_outputs)
        return CustomOperator(op, function, inputs, attributes, num_outputs)

    return register


_OWN = "an operator of the user's own"


def _check_name(op: str) -> None:
    own = is_registered(op) and find_operator(op).source == _OWN
    if not op.isidentifier() or ((is_registered(op) or op in READERS) and not own):
        raise UsageError(f"an operator cannot be called {op!r}: the name is taken, or is not an identifier")


def _effect(effect: Effect | str) -> Effect:
    if isinstance(effect, Effect):
        return effect
    if effect.upper() not in Effect.__members__:
        raise UsageError(
            f"unknown effect {effect!r}; expected one of {', '.join(Effect.__members__).lower()}"
        )
    return Effect[effect.upper()]


def _parameters(
    function: Callable[..., Any], op: str, *, has_state: bool
) -> tuple[tuple[str, ...], dict[str, Any]]:
    inputs: list[str] = []
    attributes: dict[str, Any] = {}
    parameters = dict(inspect.signature(function).parameters)
    if has_state and parameters.pop("state", None) is None:
        raise UsageError(f"operator {op!r} keeps a state, and has no keyword-only parameter 'state'")
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            default = parameter.default
            if not isinstance(default, bool | int | float | str | tuple):
                raise UsageError(
                    f"operator {op!r}: attribute {parameter.name!r} needs a default that is a number, a "
                    f"string, a bool or a tuple of integers, found {_shown(default)}"
                )
            attributes[parameter.name] = default
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty:
            inputs.append(parameter.name)
        else:
            raise UsageError(
                f"operator {op!r}: parameter {parameter.name!r} is neither an input (positional, without "
                "default) nor an attribute (keyword-only, with one)"
            )
    return tuple(inputs), attributes


def _shown(default: Any) -> str:
    return "none" if default is inspect.Parameter.empty else repr(default)


def _shape_rule(shapes: Shapes, num_outputs: int) -> Callable[..., Sequence[tuple[Dim, ...]]]:
    def rule(given: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
        shapes_out = shapes(*given, **attributes)
        many = (
            [tuple(shapes_out)]
            if num_outputs == 1 and not isinstance(shapes_out, list)
            else [tuple(s) for s in shapes_out]
        )
        if len(many) != num_outputs:
            raise ValueError(f"the shape rule returns {len(many)} shapes, expected {num_outputs}")
        return many

    return rule


def as_list(found: Any) -> list[Any]:
    """Return one array or several as a list."""
    return list(found) if isinstance(found, tuple | list) else [found]


def _forward(
    function: Callable[..., Any], arrays: str, state: Callable[[], Mapping[str, Any]] | None
) -> Callable[..., Sequence[np.ndarray]]:
    def forward(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
        if state is not None and "state" not in attributes:  # a runtime for inference, which keeps nothing
            attributes = {**attributes, "state": dict(state())}
        if arrays == TORCH:
            import torch

            with torch.no_grad():
                made = as_list(function(*map(torch.from_numpy, inputs), **attributes))
            return [tensor.numpy() for tensor in made]
        return [np.asarray(array) for array in as_list(function(*inputs, **attributes))]

    return forward


def _gradient(gradient: Callable[..., Any]) -> Callable[..., Sequence[np.ndarray | None]]:
    def backward(
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        above: Sequence[np.ndarray],
        attributes: Attributes,
    ) -> Sequence[np.ndarray | None]:
        given = above[0] if len(above) == 1 else list(above)
        settings = {name: value for name, value in attributes.items() if name != "state"}
        return as_list(gradient(list(inputs), list(outputs), given, **settings))

    return backward


def _reader(
    inputs: Sequence[str], attributes: Mapping[str, Any], num_outputs: int
) -> Callable[[MXNetOperator], tuple[ir.Value, ...]]:
    """Return how the operator is read from a symbol."""

    def read(ctx: MXNetOperator) -> tuple[ir.Value, ...]:
        values = [ctx.input(name) for name in inputs]
        settings = {key: _setting(ctx.settings, key, default) for key, default in attributes.items()}
        return ctx.add_many(ctx.op, values, settings, outputs=num_outputs, domain=DOMAIN)

    return read


def _setting(settings: Settings, key: str, default: Any) -> Any:
    if isinstance(default, bool):
        return int(settings.flag(key, default))
    if isinstance(default, int):
        return settings.integer(key, default)
    if isinstance(default, float):
        return settings.number(key, default)
    if isinstance(default, tuple):
        return list(settings.integers(key, default))
    return settings.string(key, default)

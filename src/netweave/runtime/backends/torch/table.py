"""The table of lowerings: for each operator the function that computes it with torch.

The function's signature is the operator's: positional arguments are its inputs (None for an optional one
that is left out), keyword arguments its attributes with ONNX's defaults. How an input arrives is said by
its annotation: a ``Tensor`` as it is, ``Ints`` and ``Numbers`` as tuples of Python numbers and ``Number``
as one (these are known while lowering if they are constants of the net, read off the tensor otherwise).

Some keywords are no attributes: ``num_outputs`` is how many outputs the node has, ``training`` whether the
net is in training mode, ``memory`` what the node keeps from call to call, those of ``graph.Statistics`` its
rule, ``draws`` and ``stream`` where it draws random numbers, and ``batch`` the whole batch, where what is
computed is a part of one. A function whose return type is a tuple gives all outputs, any other the first.

To add one: write ``@lowering("Name", since=version)`` over the function in the file of its family. ``since``
is the first version of the operator with this meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import torch

Ints = tuple[int, ...]
"""An input that arrives as Python integers: sizes, axes, positions."""

Numbers = tuple[float, ...]
"""An input that arrives as Python floats: scales."""

Number = int | float
"""An input of one element that arrives as a Python number."""

INJECTED = frozenset(
    {"num_outputs", "training", "memory", "unbiased", "fixed", "count", "draws", "stream", "batch"}
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


_LOWERINGS: dict[tuple[str, str], list[Lowering]] = {}


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
    found: Callable[..., Any] = getattr(target, "with_gradients", target)
    return found


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
    rows = _LOWERINGS.setdefault((row.domain, row.op_type), [])
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

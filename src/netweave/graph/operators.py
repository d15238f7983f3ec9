"""The registry of the operators that ONNX lacks: domain ``netweave``.

An operator is one entry with its shape rule, its forward (and, where a source defines one, its gradient)
in NumPy, and its effects. The entries stand in ``netweave.graph.ops``, one file per family; runtimes have
lowerings of their own, tested against these. Standard ONNX operators need no entry: only their effects are
asked for here.

To add one: write ``@operator("Name", shapes=rule)`` over its forward in the file of its family.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph.graph import has_subgraphs, subgraphs

Attributes = Mapping[str, Any]
"""Attributes of a node as Python values."""

Dim = int | ir.SymbolicDim
ShapeRule = Callable[[Sequence[tuple[Dim, ...]], Attributes], Sequence[tuple[Dim, ...]]]
"""Shapes of the outputs from those of the inputs; raises ``ValueError`` with the reason."""

Forward = Callable[[Sequence[np.ndarray], Attributes], Sequence[np.ndarray]]
Gradient = Callable[
    [Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray], Attributes],
    Sequence[np.ndarray | None],
]
"""Gradients of the inputs from (inputs, outputs, gradients of the outputs, attributes)."""


class Effect(enum.Enum):
    """A side effect of an operator."""

    RANDOM = "draws random numbers"
    STATEFUL = "keeps something from call to call"
    WORLD = "reads or writes something outside the net"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the domain ``netweave``.

    Attributes:
        op_type: Its name.
        shapes: Rule for the shapes of its outputs.
        forward: Its outputs in NumPy, in test mode.
        gradient: The gradient that its source defines, or None where it is that of ``forward``.
        effects: What else it does; no pass or runtime merges, reorders or caches such calls.
        source: Where the rule comes from.
        dtypes: Element types of the outputs; an output beyond them has the type of the first input.
        tensor_forward: Of an operator of the user's own: its outputs from torch tensors, with the attributes
            as keywords; None where ``forward`` is all there is.
        tensor_gradient: Gradients of the inputs from lists of tensors, likewise; None where torch finds them.
        state: Of an operator of the user's own that keeps something: makes the arrays that a node begins
            with, by name; its forward takes them as the keyword ``state``.
        defaults: Attributes of an operator that torch runs by ``forward`` or ``tensor_forward``, with their
            defaults.
    """

    op_type: str
    shapes: ShapeRule
    forward: Forward
    gradient: Gradient | None = None
    effects: frozenset[Effect] = frozenset()
    source: str = ""
    dtypes: tuple[ir.DataType, ...] = field(default=())
    tensor_forward: Callable[..., Any] | None = None
    tensor_gradient: Callable[..., Any] | None = None
    state: Callable[[], Mapping[str, Any]] | None = None
    defaults: Attributes = field(default_factory=dict)


_OPERATORS: dict[str, Operator] = {}

_STANDARD_EFFECTS = {
    "RandomNormal": Effect.RANDOM,
    "RandomNormalLike": Effect.RANDOM,
    "RandomUniform": Effect.RANDOM,
    "RandomUniformLike": Effect.RANDOM,
    "Bernoulli": Effect.RANDOM,
    "Multinomial": Effect.RANDOM,
}


def operator(
    op_type: str,
    *,
    shapes: ShapeRule,
    gradient: Gradient | None = None,
    effects: Iterable[Effect] = (),
    dtypes: Sequence[ir.DataType] = (),
    defaults: Attributes | None = None,
) -> Callable[[Forward], Forward]:
    """Register the decorated forward as an operator of the domain ``netweave``.

    The first line of its docstring names the source of the rule. ``defaults`` are wanted where torch has no
    lowering of its own and runs the forward.
    """

    def register(forward: Forward) -> Forward:
        register_operator(
            Operator(
                op_type=op_type,
                shapes=shapes,
                forward=forward,
                gradient=gradient,
                effects=frozenset(effects),
                source=(forward.__doc__ or "").strip().split("\n")[0],
                dtypes=tuple(dtypes),
                defaults=defaults or {},
            )
        )
        return forward

    return register


def no_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Send nothing back: the gradient of operators that choose."""
    return [None] * len(inputs)


def register_operator(entry: Operator) -> None:
    """Enter an operator in the registry, in the place of one of the same name."""
    _OPERATORS[entry.op_type] = entry


def is_registered(op_type: str) -> bool:
    """Return whether there is an operator of this name in the domain ``netweave``."""
    return op_type in _OPERATORS


def find_operator(op_type: str) -> Operator:
    """Return an operator of the domain ``netweave``.

    Raises:
        RunError: There is none of that name.
    """
    operator = _OPERATORS.get(op_type)
    if operator is None:
        known = ", ".join(sorted(_OPERATORS))
        raise RunError(f"unknown operator netweave::{op_type}; expected one of {known}")
    return operator


def all_operators() -> dict[str, Operator]:
    """Return every operator of the domain ``netweave`` by name."""
    return dict(sorted(_OPERATORS.items()))


_NO_EFFECTS: frozenset[Effect] = frozenset()


def effects_of(node: ir.Node) -> frozenset[Effect]:
    """Return what a node does besides computing its outputs from its inputs.

    A node does what the nodes of its subgraphs do; a Dropout draws unless it is in test mode for sure.
    """
    if node.domain == "netweave":
        return find_operator(node.op_type).effects
    if node.domain not in {"", "ai.onnx"}:
        return frozenset()
    if node.op_type == "Dropout":
        return frozenset({Effect.RANDOM}) if _may_train(node) else frozenset()
    if node.op_type in _STANDARD_EFFECTS:
        return frozenset({_STANDARD_EFFECTS[node.op_type]})
    if not has_subgraphs(node):
        return _NO_EFFECTS
    return frozenset(effect for graph in subgraphs(node) for inner in graph for effect in effects_of(inner))


def _may_train(dropout: ir.Node) -> bool:
    mode = dropout.inputs[2] if len(dropout.inputs) > 2 else None
    if mode is None:
        return False
    return mode.const_value is None or bool(mode.const_value.numpy())

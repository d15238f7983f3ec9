"""What a net of layers is trained to make small, by the names of Keras: a mean over the batch.

Where a prediction is a softmax or a sigmoid, the objective is computed from what goes into it, which is
exact where probabilities are rounded to 0 or 1; Keras does the same. To add one: a function and its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.symbol.metrics import call, mean_absolute_error, mean_squared_error
from netweave.symbol.symbol import Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

EPSILON = 1e-7
"""Probabilities are bounded by it and 1 minus it."""


def sparse_categorical_crossentropy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the cross entropy with class numbers; classes are the last axis."""
    return -call("mean", call("pick", _log_probabilities(prediction), label))


def categorical_crossentropy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the cross entropy with probabilities of classes; classes are the last axis."""
    return -call("mean", call("sum", _log_probabilities(prediction) * label, axis=-1))


def binary_crossentropy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the cross entropy of each element with a label between 0 and 1."""
    label = call("reshape_like", label, prediction)
    x = _before(prediction, "sigmoid")
    if x is not None:
        return call("mean", call("relu", x) - x * label + call("log1p", call("exp", -call("abs", x))))
    p = call("clip", prediction, a_min=EPSILON, a_max=1 - EPSILON)
    return -call("mean", label * call("log", p) + (1 - label) * call("log", 1 - p))


OBJECTIVES: dict[str, Callable[[Symbol, Symbol], Symbol]] = {
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
    "categorical_crossentropy": categorical_crossentropy,
    "binary_crossentropy": binary_crossentropy,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
    "mae": mean_absolute_error,
}
"""The objectives by Keras's names: ``(prediction, label) -> one number``."""


def find_objective(name: str) -> Callable[[Symbol, Symbol], Symbol]:
    """Return an objective.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in OBJECTIVES:
        raise UsageError(f"unknown loss {name!r}; expected one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def _log_probabilities(prediction: Symbol) -> Symbol:
    scores = _before(prediction, "softmax")
    if scores is not None:
        return call("log_softmax", scores, axis=-1)
    return call("log", call("clip", prediction, a_min=EPSILON, a_max=1 - EPSILON))


def _before(prediction: Symbol, activation: str) -> Symbol | None:
    """Return what an activation at the end of a net reads; None if there is another one."""
    vertex = prediction.outputs[0].vertex
    applied = vertex.attributes.get("act_type") if vertex.op == "Activation" else vertex.op
    return Symbol([vertex.inputs[0]]) if applied == activation else None

"""Keras 3's losses (keras/src/losses at 3.15), each written once: for symbolic tensors and for arrays.

A function gives one number for each row, a ``Loss`` reduces these to what is made small.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras import ops
from netweave.keras.losses import functions
from netweave.keras.objects import Configured, Family
from netweave.keras.operation import EPSILON, unique_name

REDUCTIONS = ("sum_over_batch_size", "sum", "mean", "mean_with_sample_weight", "none", None)

LOSSES: Family[Any] = Family("loss", "keras.losses")


def same_rank(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two tensors with as many axes, of which one may lack a last axis of size 1."""
    ranks = len(a.shape), len(b.shape)
    if ranks[0] == ranks[1] + 1 and a.shape[-1] == 1:
        return (a, ops.expand_dims(b, -1)) if ranks[1] == 1 else (ops.squeeze(a, -1), b)
    if ranks[1] == ranks[0] + 1 and b.shape[-1] == 1:
        return (ops.expand_dims(a, -1), b) if ranks[0] == 1 else (a, ops.squeeze(b, -1))
    return a, b


class Loss(Configured):
    """A loss to be minimised: ``call`` returns numbers, which are weighted and reduced.

    Args:
        name: Its name; None for one after its class.
        reduction: ``sum_over_batch_size`` (also ``mean``) divides the sum by how many numbers there are,
            ``mean_with_sample_weight`` by the sum of the weights; ``sum``, or ``none``.

    Raises:
        UsageError: There is no such reduction.
    """

    def __init__(self, name: str | None = None, reduction: str | None = "sum_over_batch_size") -> None:
        if reduction not in REDUCTIONS:
            raise UsageError(f"reduction is {reduction!r}, expected one of {', '.join(map(str, REDUCTIONS))}")
        self.name = name or unique_name(type(self).__name__)
        self.reduction = reduction

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return the loss of predictions."""
        y_true, y_pred = as_values(y_true), as_values(y_pred)
        values = self.call(y_true, y_pred)
        if sample_weight is not None:
            values, sample_weight = same_rank(values, as_values(sample_weight))
            values = values * sample_weight
        if self.reduction in {None, "none"} or not values.shape:
            return values
        if self.reduction == "sum":
            return ops.sum(values)
        if self.reduction == "mean_with_sample_weight" and sample_weight is not None:
            total = ops.sum(sample_weight)  # 0 where a mask leaves all out: Keras' loss is 0 then
            return ops.sum(values) / ops.where(ops.equal(total, 0.0), 1.0, total)
        return ops.mean(values)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number for each row."""
        raise NotImplementedError


class LossFunction(Loss):
    """A function of labels and predictions as a loss.

    Args:
        fn: The function; it has to use ``netweave.keras.ops`` on what it is given.
        reduction: See ``Loss``.
        name: Its name.
        settings: Further arguments of the function.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name or getattr(fn, "__name__", None), reduction)
        self.fn, self.settings = fn, settings

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number for each row."""
        return self.fn(y_true, y_pred, **self.settings)

    def get_config(self) -> dict[str, Any]:
        """Return the settings; a function of a user's own is not among them.

        Raises:
            UsageError: The function is none of Keras'.
        """
        if LOSSES.classes.get(getattr(self.fn, "__name__", "")) is not self.fn:
            raise UsageError(f"the loss {self.name!r} is a function of your own, which no file can hold")
        return {**self.settings, "name": self.name, "reduction": self.reduction}


def apply_mask(sample_weight: Any, mask: Any, reduction: str | None) -> Any:
    """Return weights that leave out masked steps, as Keras' losses and metrics do.

    Where the loss is a mean over all numbers, the steps that count weigh so much more that it is the mean
    over these alone. A mask without any step that counts gives weights of 0.

    Args:
        sample_weight: The weights; None where all are 1.
        mask: 1 at the steps that count, else 0; None where all do.
        reduction: That of the loss.
    """
    if mask is None:
        return sample_weight
    if reduction in {"mean", "sum_over_batch_size"}:
        mask = mask * (ops.sum(ops.ones_like(mask)) / ops.maximum(ops.sum(mask), 1.0))
    if sample_weight is None:
        return mask
    mask, sample_weight = same_rank(mask, as_values(sample_weight))
    return sample_weight * mask


def as_values(value: Any) -> Any:
    """Return a symbolic tensor, or an array of float32."""
    return value if ops.is_symbolic(value) else np.asarray(value, np.float32)


def loss_function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function in the table, under its name and others."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in (function.__name__, *names):
            LOSSES.classes[name.lower()] = function
        return function

    return enter


@loss_function("mse")
def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of the squared differences."""
    y_true, y_pred = same_rank(y_true, y_pred)
    return ops.mean(ops.square(y_true - y_pred), axis=-1)


@loss_function("mae")
def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of the absolute differences."""
    y_true, y_pred = same_rank(y_true, y_pred)
    return ops.mean(ops.abs(y_true - y_pred), axis=-1)


@loss_function("mape")
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of the differences in parts of the labels, in per cent."""
    y_true, y_pred = same_rank(y_true, y_pred)
    share = ops.abs((y_true - y_pred) / ops.maximum(ops.abs(y_true), EPSILON))
    return 100.0 * ops.mean(share, axis=-1)


@loss_function("msle")
def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of the squared differences of ``log(y + 1)``."""
    y_true, y_pred = same_rank(y_true, y_pred)
    logs = [ops.log(ops.maximum(y, EPSILON) + 1.0) for y in (y_pred, y_true)]
    return ops.mean(ops.square(logs[0] - logs[1]), axis=-1)


@loss_function()
def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Return minus the cosine of the angle between label and prediction."""
    y_true, y_pred = same_rank(y_true, y_pred)
    return -ops.sum(ops.normalize(y_true, axis) * ops.normalize(y_pred, axis), axis=axis)


@loss_function()
def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Return half of the squared difference up to ``delta``, from there on a straight line."""
    y_true, y_pred = same_rank(y_true, y_pred)
    error = y_pred - y_true
    size = ops.abs(error)
    line = delta * size - 0.5 * delta**2
    return ops.mean(ops.where(size <= delta, 0.5 * ops.square(error), line), axis=-1)


@loss_function("logcosh")
def log_cosh(y_true: Any, y_pred: Any) -> Any:
    """Return the logarithm of the hyperbolic cosine of the difference."""
    y_true, y_pred = same_rank(y_true, y_pred)
    x = y_pred - y_true
    return ops.mean(x + ops.softplus(x * -2.0) - float(np.log(2.0)), axis=-1)


@loss_function("kld", "kullback_leibler_divergence")
def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    """Return how far predicted probabilities are from those of the labels."""
    y_true, y_pred = ops.clip(y_true, EPSILON, 1), ops.clip(y_pred, EPSILON, 1)
    return ops.sum(y_true * ops.log(y_true / y_pred), axis=-1)


@loss_function()
def poisson(y_true: Any, y_pred: Any) -> Any:
    """Return ``y_pred - y_true log(y_pred)``."""
    return ops.mean(y_pred - y_true * ops.log(y_pred + EPSILON), axis=-1)


def signs(y_true: Any) -> Any:
    """Return labels of -1 and 1, of such or of 0 and 1.

    Keras looks at all labels of a batch: those with a -1 or without a 0 stay as they are.
    """
    if not ops.is_symbolic(y_true):
        is_binary = bool(np.all((y_true == 0) | (y_true == 1)))
        return 2.0 * y_true - 1.0 if is_binary else y_true
    is_binary = ops.all(ops.logical_or(ops.equal(y_true, 0.0), ops.equal(y_true, 1.0)))
    return ops.where(is_binary, 2.0 * y_true - 1.0, y_true)


@loss_function()
def hinge(y_true: Any, y_pred: Any) -> Any:
    """Return ``max(1 - y_true y_pred, 0)``."""
    return ops.mean(ops.maximum(1.0 - signs(y_true) * y_pred, 0.0), axis=-1)


@loss_function()
def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """Return the square of the hinge."""
    return ops.mean(ops.square(ops.maximum(1.0 - signs(y_true) * y_pred, 0.0)), axis=-1)


@loss_function()
def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """Return how much the best wrong class is above the right one, less 1."""
    right = ops.sum(y_true * y_pred, axis=-1)
    wrong = ops.max((1.0 - y_true) * y_pred, axis=-1)
    return ops.maximum(wrong - right + 1.0, 0.0)


def _smoothed(y_true: Any, smoothing: float, share: float) -> Any:
    return y_true * (1.0 - smoothing) + smoothing * share if smoothing else y_true


@loss_function("bce")
def binary_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Any:
    """Return the cross entropy of each element with a label between 0 and 1."""
    y_true, y_pred = same_rank(_smoothed(y_true, label_smoothing, 0.5), y_pred)
    return ops.mean(ops.binary_crossentropy(y_true, y_pred, from_logits), axis=axis)


@loss_function("cce")
def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Any:
    """Return the cross entropy with probabilities of classes."""
    target = _smoothed(y_true, label_smoothing, 1.0 / (y_true.shape[-1] or 1))
    return ops.categorical_crossentropy(target, y_pred, from_logits, axis)


@loss_function("scce")
def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1
) -> Any:
    """Return the cross entropy with numbers of classes."""
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[axis] == 1:
        y_true = ops.squeeze(y_true, axis)
    if ignore_class is not None:
        raise UsageError("ignore_class is not supported; give those records the sample_weight 0")
    return ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits, axis)


@loss_function()
def binary_focal_crossentropy(
    y_true: Any,
    y_pred: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the binary cross entropy, with less weight for what is already told well."""
    y_true = _smoothed(y_true, label_smoothing, 0.5)
    y_pred = ops.sigmoid(y_pred) if from_logits else y_pred
    y_true, y_pred = same_rank(y_true, y_pred)
    right = y_true * y_pred + (1 - y_true) * (1 - y_pred)
    values = ops.power(1.0 - right, gamma) * ops.binary_crossentropy(y_true, y_pred)
    if apply_class_balancing:
        values = (y_true * alpha + (1 - y_true) * (1 - alpha)) * values
    return ops.mean(values, axis=axis)


@loss_function()
def categorical_focal_crossentropy(
    y_true: Any,
    y_pred: Any,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the cross entropy of classes, with less weight for what is already told well."""
    y_true = _smoothed(y_true, label_smoothing, 1.0 / (y_true.shape[-1] or 1))
    y_pred = ops.softmax(y_pred, axis) if from_logits else y_pred
    p = ops.clip(y_pred / ops.sum(y_pred, axis=axis, keepdims=True), EPSILON, 1.0 - EPSILON)
    return ops.sum(ops.power(1.0 - p, gamma) * alpha * (-y_true * ops.log(p)), axis=axis)


@loss_function()
def dice(y_true: Any, y_pred: Any, axis: ops.Axis = None) -> Any:
    """Return 1 less twice what labels and predictions share, in parts of both."""
    shared = ops.sum(y_true * y_pred, axis=axis)
    return 1 - 2.0 * shared / (ops.sum(y_true, axis=axis) + ops.sum(y_pred, axis=axis) + EPSILON)


@loss_function()
def tversky(y_true: Any, y_pred: Any, alpha: float = 0.5, beta: float = 0.5, axis: ops.Axis = None) -> Any:
    """Return the loss of Dice with weights for what is missed, and for what is predicted beyond."""
    shared = ops.sum(y_true * y_pred, axis=axis)
    missed = ops.sum((1 - y_pred) * y_true, axis=axis)
    beyond = ops.sum(y_pred * (1 - y_true), axis=axis)
    return 1 - shared / (shared + missed * alpha + beyond * beta + EPSILON)


def get(identifier: Any) -> Any:
    """Return a loss by its name or settings; a function, or None, as it is.

    Raises:
        UsageError: There is none of that name.
    """
    return LOSSES.get(identifier)


def as_loss(identifier: Any) -> Loss | None:
    """Return a loss as an object; None for None."""
    loss = get(identifier)
    if loss is None or isinstance(loss, Loss):
        return loss
    name = identifier if isinstance(identifier, str) else getattr(loss, "__name__", "loss")
    return LossFunction(loss, name=name)


NAMES = {
    "MeanSquaredError": "mean_squared_error",
    "MeanAbsoluteError": "mean_absolute_error",
    "MeanAbsolutePercentageError": "mean_absolute_percentage_error",
    "MeanSquaredLogarithmicError": "mean_squared_logarithmic_error",
    "CosineSimilarity": "cosine_similarity",
    "Huber": "huber",
    "LogCosh": "log_cosh",
    "Hinge": "hinge",
    "SquaredHinge": "squared_hinge",
    "CategoricalHinge": "categorical_hinge",
    "KLDivergence": "kl_divergence",
    "Poisson": "poisson",
    "BinaryCrossentropy": "binary_crossentropy",
    "BinaryFocalCrossentropy": "binary_focal_crossentropy",
    "CategoricalCrossentropy": "categorical_crossentropy",
    "CategoricalFocalCrossentropy": "categorical_focal_crossentropy",
    "SparseCategoricalCrossentropy": "sparse_categorical_crossentropy",
    "Dice": "dice",
    "Tversky": "tversky",
}
"""Classes, and the function that each of them wraps."""

OWN_NAMES = {"Huber": "huber_loss"}
"""Names of objects where they are not those of the function."""

REDUCTION = "sum_over_batch_size"


def _loss_class(class_name: str, function_name: str) -> type[Loss]:
    function = getattr(functions, function_name)
    settings = [
        one.replace(annotation=one.empty)
        for name, one in inspect.signature(function).parameters.items()
        if name not in {"y_true", "y_pred"}
    ]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    reduction = inspect.Parameter("reduction", kind, default=REDUCTION)
    name = inspect.Parameter("name", kind, default=OWN_NAMES.get(class_name, function_name))
    signature = inspect.Signature([inspect.Parameter("self", kind), *settings, reduction, name])

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        given.pop("self")
        Loss.__init__(self, given.pop("name"), given.pop("reduction"))
        self.settings = given
        self.__dict__.update(given)

    def call(self: Any, y_true: Any, y_pred: Any) -> Any:
        return function(y_true, y_pred, **self.settings)

    initialise.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    members = {"__init__": initialise, "call": call, "__doc__": function.__doc__}
    made: type[Loss] = LOSSES.register()(type(class_name, (Loss,), members))
    # its name in snake case is the function, which a name stands for in ``compile``
    LOSSES.classes[function_name] = function
    return made


CLASSES: dict[str, type[Loss]] = {name: _loss_class(name, function) for name, function in NAMES.items()}
"""The classes by name."""

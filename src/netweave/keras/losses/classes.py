"""The classes of Keras' losses: their functions with settings of their own."""

from __future__ import annotations

import inspect
from typing import Any

from netweave.keras.losses import functions
from netweave.keras.losses.functions import LOSSES, Loss

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

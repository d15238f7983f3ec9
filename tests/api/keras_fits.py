"""Nets that are fitted by Keras and by Netweave's ``Sequential``; nothing here imports either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BATCH, RECORDS, EPOCHS = 8, 44, 3


@dataclass(frozen=True)
class Case:
    """One way to train: Keras's optimizer and its settings, ours, loss, metric, the last layer."""

    keras: tuple[str, dict[str, Any]]
    ours: Any
    loss: str
    metric: str
    last: str | None
    outputs: int


CLASSES = ("sparse_categorical_crossentropy", "accuracy", "softmax", 3)

CASES = {
    "adam": Case(("Adam", {"learning_rate": 0.02}), {"name": "adam", "learning_rate": 0.02}, *CLASSES),
    "sgd": Case(
        ("SGD", {"learning_rate": 0.1, "momentum": 0.9}),
        {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
        *CLASSES,
    ),
    "nesterov": Case(
        ("SGD", {"learning_rate": 0.1, "momentum": 0.8, "nesterov": True}),
        {"name": "nesterov", "learning_rate": 0.1, "momentum": 0.8},
        *CLASSES,
    ),
    "rmsprop": Case(("RMSprop", {}), "rmsprop", "mse", "mae", None, 1),
    "binary": Case(("Adam", {}), "adam", "binary_crossentropy", "binary_accuracy", "sigmoid", 1),
    "one hot": Case(("Adam", {}), "adam", "categorical_crossentropy", "mse", "softmax", 3),
}


def records(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return records and labels; labels follow from records."""
    generator = np.random.RandomState(5)
    x = generator.normal(size=(RECORDS, 6)).astype(np.float32)
    classes = x[:, :3].argmax(1)
    labels = {
        "mse": x[:, :1] * 2 - x[:, 1:2],
        "binary_crossentropy": (x[:, :1] > 0),
        "categorical_crossentropy": np.eye(3)[classes],
    }
    return x, labels.get(case.loss, classes).astype(np.float32)


def first_values(case: Case) -> dict[str, np.ndarray]:
    """Return the arrays that both start from, by Netweave's names; filters are (outputs, inputs)."""
    generator = np.random.RandomState(9)
    shapes = {
        "dense0_weight": (7, 6),
        "dense0_bias": (7,),
        "dense1_weight": (case.outputs, 7),
        "dense1_bias": (case.outputs,),
    }
    return {name: generator.normal(size=shape).astype(np.float32) * 0.4 for name, shape in shapes.items()}

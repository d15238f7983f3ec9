"""Models in ``.keras`` files with what each optimizer keeps, and where training gets to from there.

    python -m tests.oracles.keras_optimizer_files train|resume MODULE FOLDER

``MODULE`` is ``keras``, or what stands in for it. ``train`` makes ten updates, saves each model and makes ten
more; ``resume`` makes the last ten from the file. Arrays are written to ``MODULE-train.npz`` in the folder.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.keras.examples import first_weights

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "sgd_momentum": ("SGD", {"momentum": 0.9}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop_all": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "adam": ("Adam", {}),
    "amsgrad": ("Adam", {"amsgrad": True}),
    "adamw": ("AdamW", {}),
    "nadam": ("Nadam", {}),
    "adamax": ("Adamax", {}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {"learning_rate": 1.0}),
    "ftrl": ("Ftrl", {}),
    "lion": ("Lion", {}),
    "lamb": ("Lamb", {}),
    "schedule": ("Adam", {"learning_rate": "decay"}),
}
STEPS = 10


def made(keras: Any, name: str) -> Any:
    """Return a model with statistics, kernels of four axes, and an optimizer."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            layers.Conv2D(3, 3, activation="tanh"),
            layers.BatchNormalization(),
            layers.Reshape((4, 12)),
            layers.LSTM(4),
            layers.Dense(3, activation="softmax"),
        ]
    )
    kind, settings = OPTIMIZERS[name]
    if settings.get("learning_rate") == "decay":
        settings = {"learning_rate": keras.optimizers.schedules.ExponentialDecay(0.01, 4, 0.8)}
    optimizer = getattr(keras.optimizers, kind)(**settings)
    model.compile(optimizer, loss="sparse_categorical_crossentropy")
    model.set_weights(first_weights(model))
    return model


def updated(model: Any, begin: int) -> Any:
    """Return a model after ten updates."""
    x = np.random.RandomState(0).normal(size=(32, 6, 6, 1)).astype(np.float32)
    y = np.random.RandomState(1).randint(0, 3, 32)
    for step in range(begin, begin + STEPS):
        part = slice(step % 4 * 8, step % 4 * 8 + 8)
        model.train_on_batch(x[part], y[part])
    return model


def train(keras: Any, folder: Path, name: str) -> list[np.ndarray]:
    """Train, save, train on, and return the arrays."""
    model = updated(made(keras, name), 0)
    model.save(folder / f"{name}.keras")
    return list(updated(model, STEPS).get_weights())


def resume(keras: Any, folder: Path, name: str) -> list[np.ndarray]:
    """Load, train on, and return the arrays."""
    return list(updated(keras.models.load_model(folder / f"{name}.keras"), STEPS).get_weights())


def main(action: str, module: str, folder: Path) -> None:
    """Do what the command line says."""
    keras = importlib.import_module(module)
    act = {"train": train, "resume": resume}[action]
    rows = {name: act(keras, folder, name) for name in OPTIMIZERS}
    named = {f"{name}:{number}": one for name, row in rows.items() for number, one in enumerate(row)}
    np.savez(folder / f"{module}-{action}.npz", **named)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

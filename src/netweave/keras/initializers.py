"""Names and settings of Keras' initializers; ``training.optim.keras.initializers`` draws the numbers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.objects import Configured, Family, missing
from netweave.keras.operation import next_seed

INITIALIZERS: Family[Any] = Family("initializer", "keras.initializers")

SETTINGS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Zeros": ({}, ("zero",)),
    "Ones": ({}, ("one",)),
    "Constant": ({"value": 0.0}, ()),
    "Identity": ({"gain": 1.0}, ("IdentityInitializer",)),
    "RandomNormal": ({"mean": 0.0, "stddev": 0.05, "seed": None}, ("normal",)),
    "TruncatedNormal": ({"mean": 0.0, "stddev": 0.05, "seed": None}, ()),
    "RandomUniform": ({"minval": -0.05, "maxval": 0.05, "seed": None}, ("uniform",)),
    "VarianceScaling": (
        {"scale": 1.0, "mode": "fan_in", "distribution": "truncated_normal", "seed": None},
        (),
    ),
    "GlorotUniform": ({"seed": None}, ()),
    "GlorotNormal": ({"seed": None}, ()),
    "LecunUniform": ({"seed": None}, ()),
    "LecunNormal": ({"seed": None}, ()),
    "HeUniform": ({"seed": None}, ()),
    "HeNormal": ({"seed": None}, ()),
    "Orthogonal": ({"gain": 1.0, "seed": None}, ("OrthogonalInitializer",)),
}
"""Each initializer's settings with their defaults, and its other names."""


class Initializer(Configured):
    """A rule for the first values of an array."""

    def __call__(self, shape: Sequence[int], dtype: str | None = None, *, key: str = "") -> np.ndarray:
        """Return first values.

        Args:
            shape: Sizes of the array.
            dtype: Type of the elements.
            key: Name of the array: each has a series of numbers of its own.
        """
        from netweave.training.optim.first_values import fill

        settings = self.get_config()
        seed = settings.get("seed")
        drawn = next_seed() if seed is None else int(seed)
        values = fill(f"keras.{type(self).__name__}", tuple(shape), settings, key=key, seed=drawn)
        return values.astype(dtype or np.float32, copy=False)


def _initializer_class(name: str, settings: dict[str, Any], aliases: tuple[str, ...]) -> type[Initializer]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(key, kind, default=value) for key, value in settings.items()]
    more = [
        inspect.Parameter(key, kind, default=None)
        for key in ("input_axes", "output_axes")
        if name == "VarianceScaling" or name.startswith(("Glorot", "Lecun", "He"))
    ]
    signature = inspect.Signature([inspect.Parameter("self", kind), *parameters, *more])

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for key in ("input_axes", "output_axes"):
            if bound.arguments.get(key) is not None:
                raise UsageError(f"{name}: {key} is not supported; leave it out, or draw the array yourself")
        self.__dict__.update({key: value for key, value in bound.arguments.items() if key != "self"})

    initialise.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    members = {"__init__": initialise, "__doc__": f"Keras' initializer {name}."}
    made: type[Initializer] = INITIALIZERS.register(*aliases)(type(name, (Initializer,), members))
    return made


CLASSES = {name: _initializer_class(name, *row) for name, row in SETTINGS.items()}


def get(identifier: Any) -> Any:
    """Return an initializer by its name or settings.

    Raises:
        UsageError: There is none of that name, or it has other settings.
    """
    return INITIALIZERS.get(identifier)


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return CLASSES[name]
    raise missing("keras.initializers", name, [*CLASSES, "get"])


def __dir__() -> list[str]:
    return sorted({*globals(), *CLASSES})

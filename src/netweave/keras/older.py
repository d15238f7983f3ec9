"""Spellings of Keras 1 and 2, for what Keras 3 has under another name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from netweave.errors import UsageError

# Sources: keras/legacy/interfaces.py of Keras 2, which reads calls of Keras 1; the release notes of 2.3 and
# 3.0 for what was renamed or dropped since.

F = TypeVar("F", bound=Callable[..., Any])

NAMES: dict[str, tuple[str, ...]] = {
    "W_constraint": ("kernel_constraint", "embeddings_constraint"),
    "W_regularizer": ("kernel_regularizer", "embeddings_regularizer"),
    "U_regularizer": ("recurrent_regularizer",),
    "atrous_rate": ("dilation_rate",),
    "b_constraint": ("bias_constraint",),
    "b_regularizer": ("bias_regularizer",),
    "beta_init": ("beta_initializer",),
    "bias": ("use_bias",),
    "border_mode": ("padding",),
    "concat_axis": ("axis",),
    "dim_ordering": ("data_format",),
    "dropout_U": ("recurrent_dropout",),
    "dropout_W": ("dropout",),
    "filter_length": ("kernel_size",),
    "gamma_init": ("gamma_initializer",),
    "init": ("kernel_initializer", "embeddings_initializer"),
    "inner_activation": ("recurrent_activation",),
    "inner_init": ("recurrent_initializer",),
    "nb_filter": ("filters",),
    "output_dim": ("units",),
    "p": ("rate",),
    "pool_length": ("pool_size",),
    "sigma": ("stddev",),
    "stride": ("strides",),
    "subsample": ("strides",),
    "subsample_length": ("strides",),
}
"""Arguments of layers in Keras 1, with those that have their meaning now; a layer has one of these."""

DROPPED = ("consume_less", "implementation", "input_length", "weights")
"""Arguments of layers that Keras 3 does not have; all but ``weights`` say nothing about the values."""

VALUES: dict[str, dict[str, str]] = {
    "data_format": {"tf": "channels_last", "th": "channels_first"},
    "initializer": {"normal": "random_normal", "uniform": "random_uniform", "zero": "zeros", "one": "ones"},
}
"""Values of Keras 1, by what the name of the argument ends in."""


def layer_arguments(known: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a layer in the spelling of Keras 3.

    Args:
        known: The layer's own arguments.
        kwargs: What it is given by name.

    >>> layer_arguments({"kernel_size": 0, "padding": 0}, {"nb_row": 3, "nb_col": 5, "border_mode": "same"})
    {'kernel_size': (3, 5), 'padding': 'same'}
    """
    settings: dict[str, Any] = {}
    given = dict(kwargs)
    if "nb_row" in given and "kernel_size" in known:
        settings["kernel_size"] = (given.pop("nb_row"), given.pop("nb_col"))
    for name, value in given.items():
        now = next((one for one in NAMES.get(name, ()) if one in known), name) if name not in known else name
        if name in DROPPED and name not in known:
            continue
        values = next((of for end, of in VALUES.items() if now.endswith(end)), {})
        settings[now] = values.get(value, value) if isinstance(value, str) else value
    return settings


def optimizer_arguments(known: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an optimizer in the spelling of Keras 3; ``decay`` is left to the caller.

    >>> optimizer_arguments({"epsilon": 1e-7}, {"lr": 0.1, "epsilon": None, "decay": 0.0})
    {'learning_rate': 0.1}
    """
    settings = {"learning_rate" if name == "lr" else name: value for name, value in kwargs.items()}
    if settings.get("epsilon", 0) is None:
        del settings["epsilon"]
    if not settings.get("decay", 1) and "decay" not in known:
        del settings["decay"]
    return settings


RENAMED: dict[str, str | None] = {
    "input": "inputs",
    "output": "outputs",
    "nb_epoch": "epochs",
    "generator": "x",
    "max_q_size": None,
    "max_queue_size": None,
    "nb_worker": None,
    "pickle_safe": None,
    "use_multiprocessing": None,
    "workers": None,
}
"""Arguments of models in Keras 1 and 2, with their names now; None if they have no effect here."""


def with_older_names(method: F) -> F:
    """Let a method take arguments under their names in Keras 1 and 2."""
    known = inspect.signature(method).parameters

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        settings = {}
        for name, value in kwargs.items():
            now = RENAMED.get(name, name) if name not in known else name
            if now is not None:
                settings[now] = value
        return method(*args, **settings)

    return called  # type: ignore[return-value]  # of the same signature, and more names


class OlderMethods:
    """Methods that models had in Keras 1 and 2."""

    def fit_generator(
        self, generator: Any, samples_per_epoch: int | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Train on batches: ``fit`` takes generators now.

        Args:
            generator: What yields batches (x, y).
            samples_per_epoch: Records in an epoch, as Keras 1 counted; without a number of epochs behind it,
                or by place in Keras 2, batches.
            args: The number of epochs, and more of ``fit_generator`` in Keras 2: verbose, callbacks,
                validation_data, validation_steps.
            kwargs: The same by name.
        """
        names = ("epochs", "verbose", "callbacks", "validation_data", "validation_steps", "class_weight")
        settings = {**dict(zip(names, args, strict=False)), **kwargs}
        if samples_per_epoch is not None:
            by_records = "nb_epoch" in settings
            settings["steps_per_epoch"] = _steps(samples_per_epoch, generator if by_records else None)
        if "nb_val_samples" in settings:
            judged = settings.get("validation_data")
            settings["validation_steps"] = _steps(settings.pop("nb_val_samples"), judged)
        return self.fit(generator, **settings)  # type: ignore[attr-defined]  # of the model

    @with_older_names
    def evaluate_generator(self, x: Any, steps: int | None = None, **kwargs: Any) -> Any:
        """Return the loss and the metrics over batches: ``evaluate`` takes generators now."""
        return self.evaluate(x, steps=steps, **kwargs)  # type: ignore[attr-defined]  # of the model

    @with_older_names
    def predict_generator(self, x: Any, steps: int | None = None, **kwargs: Any) -> Any:
        """Return the outputs for batches: ``predict`` takes generators now."""
        return self.predict(x, steps=steps, **kwargs)  # type: ignore[attr-defined]  # of the model

    def predict_proba(self, x: Any, batch_size: int | None = None, verbose: int = 0) -> Any:
        """Return the outputs for all records."""
        return self.predict(x, batch_size, verbose)  # type: ignore[attr-defined]  # of the model

    def predict_classes(self, x: Any, batch_size: int | None = None, verbose: int = 0) -> np.ndarray:
        """Return the number of the class for each record; of one output, whether it is above a half."""
        outputs = np.asarray(self.predict_proba(x, batch_size, verbose))
        return outputs.argmax(-1) if outputs.shape[-1] > 1 else (outputs > 0.5).astype("int32")


def _steps(records: float, batches: Any) -> int:
    """Return how many batches have some records, as Keras 2 reads the counts of Keras 1."""
    return max(1, int(records) // int(getattr(batches, "batch_size", 1)))


class OlderHistory(dict[str, Any]):
    """Measurements by name, those of accuracy also under their names before Keras 2.3.

    >>> OlderHistory(accuracy=[0.5])["acc"]
    [0.5]
    """

    def __missing__(self, name: str) -> Any:
        now = {"acc": "accuracy", "val_acc": "val_accuracy"}.get(name, name)
        if now == name or now not in self:
            raise KeyError(name)
        return self[now]


def refuse_decay(kind: str, schedule: bool) -> None:
    """Refuse a decay of Keras 2 beside a schedule.

    Raises:
        UsageError: There are both.
    """
    if schedule:
        raise UsageError(f"{kind} has a schedule and decay; leave out decay")

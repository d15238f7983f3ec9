"""The error for names of Keras that are not here."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

REMEDIES = {
    "keras.applications": "load the net from its file: keras.models.load_model",
    "keras.datasets": "load the arrays with NumPy, or use netweave.training.data",
    "keras.preprocessing": "prepare the arrays with NumPy, or use netweave.training.data",
    "keras.mixed_precision": "leave it out: arrays are float32",
    "keras.distribution": "train on several devices with netweave.training.parallel",
    "keras.random": "draw with NumPy, and pass the arrays",
    "keras.saving.load_model": "use keras.models.load_model",
    "keras.saving.register_keras_serializable": "leave it out: classes of your own cannot be in a file",
    "keras.callbacks.BackupAndRestore": "use fit(checkpoint_prefix=..., resume=True)",
    "keras.callbacks.ProgbarLogger": "use fit(verbose=1)",
    "keras.models.clone_model": "use keras.models.model_from_config(model.to_json())",
    "keras.models.model_from_json": "use keras.models.model_from_config",
    "keras.models.save_model": "use model.save(path)",
    "keras.utils.plot_model": "use model.summary()",
    "keras.utils.get_file": "fetch the file by other means; netweave.load takes its path",
}
"""The way out for what is not here, by Keras' name."""


def missing(path: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name of Keras that is not here.

    An ``AttributeError``, since ``hasattr`` and ``from ... import`` rely on it.

    Args:
        path: The module: ``keras.layers``.
        name: The name in it.
        known: Names that are there, of which similar ones are proposed.
    """
    near = difflib.get_close_matches(name, [one for one in known if not one.startswith("_")], n=3)
    remedy = REMEDIES.get(f"{path}.{name}") or (near and f"is it one of {', '.join(near)}?")
    text = f"netweave.keras has no {path}.{name}"
    return AttributeError(
        f"{text}; {remedy}"
        if remedy
        else f"{text}; dir({path}) lists what is there, and "
        "docs/how-to/keras-habits.md says what is different"
    )

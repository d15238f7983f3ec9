"""Helpers around data: ``keras.utils``."""

from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.files.output_files import write_file
from netweave.keras.objects import missing, suggestion
from netweave.keras.operation import clear_session, set_random_seed
from netweave.keras.originals import UTILS, original
from netweave.viewer.page import net_page

__all__ = ["PyDataset", "Sequence", "clear_session", "plot_model", "set_random_seed", "to_categorical"]


def to_categorical(x: Any, num_classes: int | None = None) -> np.ndarray:
    """Return a row of zeros with a one for each number of a class.

    >>> to_categorical([0, 2]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    numbers = np.asarray(x, np.int64)
    if numbers.ndim > 1 and numbers.shape[-1] == 1:
        numbers = numbers[..., 0]
    count = num_classes or int(numbers.max()) + 1
    return np.eye(count, dtype=np.float32)[numbers]


class PyDataset:
    """Batches of a user's own: ``__len__`` says how many, ``__getitem__`` gives ``(x, y)``."""

    def __len__(self) -> int:
        """Return how many batches there are."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        """Return a batch."""
        raise NotImplementedError


Sequence = PyDataset


def plot_model(model: Any, to_file: Any = "model.png", show_shapes: bool = False, **settings: Any) -> str:
    """Draw a model as a page of the viewer, with sizes, settings and costs; return its path.

    Args:
        model: The model; it must have been built.
        to_file: The page is written beside this name, with the ending ``.html``.
        show_shapes: Ignored, as all other settings of Keras: the page shows sizes and settings.
        settings: The others: ``rankdir``, ``dpi``, ``expand_nested`` and so on.

    Raises:
        UsageError: The sizes of the input are not known, or the front end is not built.
        WriteError: The file cannot be written; an old one is untouched.
    """
    unknown = sorted(set(settings) - PLOT_SETTINGS)
    if unknown:
        raise UsageError(f"plot_model has no argument {unknown[0]!r}{suggestion(unknown[0], PLOT_SETTINGS)}")
    path = Path(to_file).with_suffix(".html")
    write_file(path, net_page(model.graph()))
    return str(path)


PLOT_SETTINGS = frozenset(
    {
        *("dpi", "expand_nested", "layer_range", "rankdir", "show_dtype", "show_layer_activations"),
        *("show_layer_names", "show_trainable"),
    }
)
"""Arguments of Keras' ``plot_model`` that change nothing here."""


def __getattr__(name: str) -> Any:
    if name in UTILS:
        return original(f"utils.{name}")
    raise missing("keras.utils", name, globals())

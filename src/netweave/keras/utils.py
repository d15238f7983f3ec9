"""Helpers around data: ``keras.utils``."""

from typing import Any

import numpy as np

from netweave.keras.objects import missing
from netweave.keras.operation import clear_session, set_random_seed
from netweave.keras.originals import UTILS, original

__all__ = ["PyDataset", "Sequence", "clear_session", "set_random_seed", "to_categorical"]


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


def __getattr__(name: str) -> Any:
    if name in UTILS:
        return original(f"utils.{name}")
    raise missing("keras.utils", name, globals())

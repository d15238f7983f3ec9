"""Names that Python and NumPy have removed, for code of their time, while it is imported and run."""

from __future__ import annotations

import collections
import collections.abc
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIASES: dict[str, Any] = {"float": float, "int": int, "object": object, "str": str, "complex": complex}
"""NumPy had them as names of Python's own types until 1.24."""


@contextmanager
def removed_names() -> Iterator[None]:
    """Let code use them again until the context ends; what a name stands for has not changed."""
    removed = [(collections, name, getattr(collections.abc, name)) for name in collections.abc.__all__]
    removed += [(np, name, value) for name, value in ALIASES.items()]
    with ExitStack() as stack:
        for module, name, value in removed:
            if name not in vars(module):  # hasattr would have NumPy warn of the name
                setattr(module, name, value)
                stack.callback(delattr, module, name)
        yield

"""Names that Python and NumPy have removed, for code of their time, while it is imported and run."""

from __future__ import annotations

import collections
import collections.abc
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIASES: dict[str, Any] = {"float": float, "int": int, "object": object, "str": str, "complex": complex}
"""NumPy had them as names of Python's own types until 1.24."""


@contextmanager
def removed_names() -> Iterator[None]:
    """Let code use them again until the context ends; what a name stands for has not changed."""
    with ExitStack() as stack:
        for name in collections.abc.__all__:  # until Python 3.10
            if not hasattr(collections, name):
                stack.enter_context(
                    patch.object(collections, name, getattr(collections.abc, name), create=True)
                )
        for name, value in ALIASES.items():
            if name not in vars(np):
                stack.enter_context(patch.object(np, name, value, create=True))
        yield

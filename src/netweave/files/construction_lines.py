"""The line of the source that constructs each module or layer: where its settings stand, and fixes go."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import FrameType

MAX_FRAMES = 50
"""A constructor is looked for no further up than this."""

Lines = WeakKeyDictionary[Any, tuple[str, int]]


@contextmanager
def recording(base: type, files: Collection[str]) -> Iterator[Lines]:
    """Record the file and the line that construct each module, until the context ends.

    Args:
        base: What all modules are: ``torch.nn.Module``, ``keras.Layer``.
        files: The full paths of the files that count, which are not those of installed packages.
    """
    lines: Lines = WeakKeyDictionary()
    original: Any = base.__dict__["__init__"]

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        place = _caller(self, sys._getframe(1), files)
        if place is not None:
            lines[self] = place

    with patch.object(base, "__init__", initialise):
        yield lines


def _caller(module: Any, frame: FrameType | None, files: Collection[str]) -> tuple[str, int] | None:
    """Return the innermost line of the files outside of the module's own constructors."""
    for _ in range(MAX_FRAMES):
        if frame is None:
            return None
        is_own = frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is module
        if not is_own and frame.f_code.co_filename in files:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None

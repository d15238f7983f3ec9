"""The lines of the source that construct each module or layer: where its settings stand, and fixes go."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from types import FrameType

MAX_FRAMES = 50
"""A constructor is looked for no further up than this."""

MAX_CALLERS = 8
"""So many lines are recorded of those that led to a constructor."""

Lines = WeakKeyDictionary[Any, tuple[tuple[str, int], ...]]
"""Files and lines by what they construct: that which constructs it first, then those that called this one."""


@contextmanager
def recording(base: type, files: Collection[str]) -> Iterator[Lines]:
    """Record the lines that construct each module, until the context ends.

    Args:
        base: What all modules are: ``torch.nn.Module``, ``keras.Layer``.
        files: The full paths of the files that count, which are not those of installed packages.
    """
    lines: Lines = WeakKeyDictionary()
    original: Any = base.__dict__["__init__"]

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        places = _callers(self, sys._getframe(1), files)
        if places:
            lines[self] = places

    with patch.object(base, "__init__", initialise):
        yield lines


def _callers(module: Any, frame: FrameType | None, files: Collection[str]) -> tuple[tuple[str, int], ...]:
    """Return the lines of the files outside of the module's own constructors, the innermost first."""
    callers: list[tuple[str, int]] = []
    for _ in range(MAX_FRAMES):
        if frame is None or len(callers) == MAX_CALLERS:
            break
        is_own = frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is module
        if not is_own and frame.f_code.co_filename in files:
            callers.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(callers)

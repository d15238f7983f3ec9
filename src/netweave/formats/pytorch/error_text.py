"""Errors of foreign code as text, and which files are the code's own."""

from __future__ import annotations

import os
from pathlib import Path

MAX_CHARACTERS = 300


def root_cause(error: BaseException) -> str:
    """Return the first cause's kind and message, on one line and not too long."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


_NETWEAVE = f"{Path(__file__).parents[2]}{os.sep}"
"""The folder of this package, which stands in traces as what calls a model."""


def is_machinery(file: str) -> bool:
    """Return whether a file is PyTorch's or Netweave's."""
    return "/torch/" in file or file.startswith(_NETWEAVE)

"""Errors of foreign code as text."""

from __future__ import annotations

MAX_CHARACTERS = 300


def root_cause(error: BaseException) -> str:
    """Return the first cause's kind and message, on one line and not too long."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."

"""Packages that only some data needs."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from netweave.errors import UsageError


@cache
def need(module: str, purpose: str) -> Any:
    """Import a package of the extra ``data``.

    Args:
        module: Its name in Python.
        purpose: What needs it, in words.

    Raises:
        UsageError: It is not installed; the message says what to do.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"{purpose} need the package {module}: pip install 'netweave[data]'"
        raise UsageError(message) from error

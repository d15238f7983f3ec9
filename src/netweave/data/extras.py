"""Packages that only some data needs."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from netweave.errors import UsageError
from netweave.installation import install_command


@cache
def need(module: str, purpose: str, *, extra: str = "data") -> Any:
    """Import a package of an extra.

    Args:
        module: Its name in Python.
        purpose: What needs it, in words.
        extra: The extra of Netweave that installs it.

    Raises:
        UsageError: It is not installed; the message says what to do.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"{purpose} need the package {package}: {install_command(extra)}"
        raise UsageError(message) from error

"""Optional packages: how this copy of Netweave was installed, and so how its extras are."""

from __future__ import annotations

import importlib
import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any
from urllib.parse import unquote, urlsplit

from netweave.errors import UsageError

__all__ = ["install_command", "need"]


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this installation, for messages.

    The record that pip keeps of an installation (PEP 610) says where it came from: a folder, a wheel, or an
    index if there is no record. The command names no folder, since the workbench shows it to visitors.
    """
    joined = ",".join(extras)
    try:
        record = distribution("netweave").read_text("direct_url.json")
    except PackageNotFoundError:  # sources on the path, not installed
        record = "{}"
    if record is None:
        return f"pip install 'netweave[{joined}]'"
    archive = urlsplit(json.loads(record).get("url", "")).path.rpartition("/")[2]
    if archive.endswith((".whl", ".tar.gz")):
        return f"pip install './{unquote(archive)}[{joined}]' where this file is"
    return f"pip install --editable '.[{joined}]' in the clone of Netweave"


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

"""Which of PyTorch's files a file is."""

from __future__ import annotations

import enum
import re
import zipfile
from typing import TYPE_CHECKING

from netweave.files.code_reader import MAX_CODE_BYTES, imports_package
from netweave.formats.pytorch.state import is_legacy

if TYPE_CHECKING:
    from pathlib import Path

_MODULE = re.compile(rb"^class[ \t]+\w+\([^)\n]*\bnn\.Module\b", re.MULTILINE)
"""A class of a file that has ``nn`` from a file of parts: ``from .unet_parts import *``."""


class Kind(enum.Enum):
    """A kind of file."""

    CODE = "Python code"
    PROGRAM = "an exported program"
    SCRIPT = "TorchScript"
    STATE = "weights"


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a file, None if it is not PyTorch's."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if path.suffix == ".py":
                code = head + file.read(MAX_CODE_BYTES)
                is_model = imports_package(code, "torch", "torchvision") or _MODULE.search(code)
                return Kind.CODE if is_model else None
        if is_legacy(head):
            return Kind.STATE
        return _archive_kind(path) if head[:4] == b"PK\x03\x04" else None
    except (OSError, zipfile.BadZipFile, ValueError, RuntimeError):  # a version of zip that is not known, too
        return None


def _archive_kind(path: Path) -> Kind | None:
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    if "models/model.json" in names or "archive_format" in names:
        return Kind.PROGRAM
    if "data.pkl" not in names:
        return None
    return Kind.SCRIPT if any(name.startswith("code/") for name in names) else Kind.STATE

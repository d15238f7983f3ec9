"""Which backends can be tested here."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = {"opencv": "cv2"}
"""Of backends that have another name than the package that they need."""


def is_installed(backend: str) -> bool:
    return find_spec(PACKAGES.get(backend, backend)) is not None

"""The functions of ``chainer.functions`` that are recorded, by name, which Python's signs call as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Every function by its name in ``chainer.functions``."""

"""The functions of ``chainer.functions`` that are recorded, by name, which Python's signs call as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Every function by its name in ``chainer.functions``."""

"""``mx.engine``: torch decides what runs together; these are here for scripts that call them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


def bulk(size: int) -> Any:
    """Do nothing in a ``with`` block."""
    return nullcontext()


def set_bulk_size(size: int) -> int:
    """Return what was set before."""
    return 15

"""Rest for the garbage collector while large graphs are made and searched."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's search for cycles off for a while.

    Reading or comparing a graph makes hundreds of thousands of objects that all live on; looking for
    cycles among them again and again takes a quarter of the time. What became garbage is found afterwards.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

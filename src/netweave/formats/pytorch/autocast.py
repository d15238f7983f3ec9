"""Nets that switch to bfloat16 or float16 for a part of their code: read in the precision of their weights.

PyTorch's exporter writes a region of ``torch.autocast`` out as casts without the modules and lines that the
calls in it belong to. The switch is made for speed; without it the layers keep their names, and a comparison
measures what the layers compute.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_autocast(notes: list[str]) -> Iterator[None]:
    """Let ``torch.autocast`` change nothing, until the context ends.

    Args:
        notes: What to tell the user is added here.
    """

    def enter(region: Any) -> Any:
        note = "its code switches precision with torch.autocast, which is left out: all is in full precision"
        if region._enabled and note not in notes:
            notes.append(note)
        return region

    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.autocast, "__enter__", enter))
        stack.enter_context(patch.object(torch.autocast, "__exit__", lambda *told: None))
        yield

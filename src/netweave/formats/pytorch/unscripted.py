"""Functions that a file compiles with TorchScript while it is imported, left as the Python that they are.

Compiling says nothing about the net, fails where an operator is not registered that nothing of the net
calls, and hides what is inside from tracing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unscripted() -> Iterator[None]:
    """Let ``torch.jit.script`` give what it is given, until the context ends."""
    with patch.object(torch.jit, "script", _as_it_is):
        yield


def _as_it_is(obj: Any = None, *_: Any, **__: Any) -> Any:
    return obj

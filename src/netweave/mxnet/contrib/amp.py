"""``mx.contrib.amp``: mixed precision, as far as scripts look for it."""

from __future__ import annotations

import sys
from typing import Any

from netweave.errors import UsageError


def init(target_dtype: str = "float16", *args: Any, **kwargs: Any) -> None:
    """Refuse to cast operators behind the script's back.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        f"amp.init({target_dtype!r}) is not supported; cast with mx.sym.Cast, or compute in float32"
    )


def __getattr__(name: str) -> Any:
    if name == "amp":  # scripts import it from itself: ``from mxnet.contrib.amp import amp``
        return sys.modules[__name__]
    from netweave.mxnet.base import missing

    raise missing("mx.contrib.amp", name, ["init"])

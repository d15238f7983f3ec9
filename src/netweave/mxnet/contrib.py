"""``mx.contrib``: namespaces of operators under their older names."""

from __future__ import annotations

from typing import Any

from netweave.mxnet import autograd, ndarray
from netweave.mxnet import symbol as symbols

__all__ = ["autograd", "ndarray"]


def __getattr__(name: str) -> Any:
    if name in {"sym", "symbol"}:
        return symbols.contrib
    if name == "nd":
        return ndarray.contrib
    from netweave.mxnet.base import missing

    raise missing("mx.contrib", name, [*__all__, "nd", "sym", "symbol"])

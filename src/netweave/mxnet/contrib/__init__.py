"""``mx.contrib``: namespaces of operators under their older names, and modules of their own."""

from __future__ import annotations

import importlib
from typing import Any

from netweave.mxnet import autograd, ndarray
from netweave.mxnet import symbol as symbols

__all__ = ["autograd", "ndarray"]

MODULES = ("amp", "svrg_optimization")


def __getattr__(name: str) -> Any:
    if name in {"sym", "symbol"}:
        return symbols.contrib
    if name == "nd":
        return ndarray.contrib
    if name in MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    from netweave.mxnet.base import missing

    raise missing("mx.contrib", name, [*__all__, *MODULES, "nd", "sym", "symbol"])

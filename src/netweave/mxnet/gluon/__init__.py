"""``mx.gluon``: nets as blocks, with arrays and autograd."""

from __future__ import annotations

import importlib
from typing import Any

from netweave.mxnet.base import missing
from netweave.mxnet.gluon.block import Block, HybridBlock, SymbolBlock
from netweave.mxnet.gluon.parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from netweave.mxnet.gluon.trainer import Trainer

__all__ = [
    "Block",
    "Constant",
    "DeferredInitializationError",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "Trainer",
]

MODULES = ("autograd", "contrib", "data", "loss", "model_zoo", "nn", "rnn", "utils")


def __getattr__(name: str) -> Any:
    if name == "autograd":  # where the first releases of Gluon had it
        return importlib.import_module("netweave.mxnet.autograd")
    if name in MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise missing("mx.gluon", name, [*__all__, *MODULES])

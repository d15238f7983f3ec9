"""MXNet's Python API over Netweave: ``import netweave.mxnet as mx`` instead of ``import mxnet as mx``.

``python -m netweave.mxnet script.py`` runs a script of which no line is changed; in notebooks,
``%load_ext netweave.mxnet`` or ``netweave.mxnet.install()`` does so for the cells that follow.

One file for each module of MXNet's; each stands for the names of one table: operators are those of
``netweave.symbol``, optimizers and schedulers those of ``netweave.training.optim``, arrays are torch tensors.
What is not here fails by its name, with the way out. See docs/reference/mxnet.md.
"""

from __future__ import annotations

import importlib
from typing import Any

from netweave.mxnet.base import missing, require_torch

require_torch()

__version__ = "1.9.1"
"""The version whose rules these are; scripts look at it."""

MODULES = {
    name: name
    for name in (
        "attribute",
        "autograd",
        "base",
        "callback",
        "context",
        "contrib",
        "engine",
        "executor",
        "gluon",
        "image",
        "initializer",
        "io",
        "kvstore",
        "log",
        "lr_scheduler",
        "metric",
        "model",
        "module",
        "monitor",
        "name",
        "ndarray",
        "notebook",
        "operator",
        "optimizer",
        "profiler",
        "random",
        "recordio",
        "rnn",
        "runtime",
        "symbol",
        "test_utils",
        "util",
        "visualization",
    )
} | {
    "img": "image",
    "init": "initializer",
    "kv": "kvstore",
    "misc": "lr_scheduler",
    "mod": "module",
    "mon": "monitor",
    "nd": "ndarray",
    "opt": "optimizer",
    "rnd": "random",
    "sym": "symbol",
    "viz": "visualization",
}
"""The modules by the names that scripts have for them."""

NAMES = {
    "AttrScope": "attribute",
    "Context": "context",
    "MXNetError": "base",
    "NDArray": "ndarray",
    "Symbol": "symbol",
    "cpu": "context",
    "cpu_pinned": "context",
    "current_context": "context",
    "gpu": "context",
    "gpu_memory_info": "context",
    "install": "hook",
    "num_gpus": "context",
    "waitall": "ndarray",
}
"""Names of the package itself, and the modules that have them."""


def __getattr__(name: str) -> Any:
    """Return a module, or a name of the package, when it is first used."""
    if name in MODULES:
        value = importlib.import_module(f"{__name__}.{MODULES[name]}")
    elif name in NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{NAMES[name]}"), name)
    else:
        raise missing("mx", name, [*MODULES, *NAMES])
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Answer ``import mxnet`` in a notebook, for ``%load_ext netweave.mxnet``."""
    importlib.import_module(f"{__name__}.hook").install()


def __dir__() -> list[str]:
    return sorted([*globals(), *MODULES, *NAMES])

"""Netweave reads a neural net written for any framework into one graph and compares nets.

``import netweave`` is light: it loads no framework and no runtime; names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from netweave.api import Comparison, Graph, compare, load, run, save

__all__ = ["Comparison", "Graph", "compare", "load", "run", "save"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from netweave import api

        return getattr(api, name)
    raise AttributeError(f"module 'netweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Netweave reads a neural net written for any framework into one graph, compares nets and trains them.

``import netweave`` is light: it loads no framework and no runtime; names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from netweave import symbol
    from netweave.api import (
        Comparison,
        Graph,
        Job,
        Module,
        Sequential,
        Verdict,
        carry,
        compare,
        evaluate,
        evaluate_boxes,
        extract,
        find_boxes,
        load,
        load_job,
        operator,
        pack,
        run,
        save,
        save_weights,
        time_layers,
        train,
    )

__all__ = [
    "Comparison",
    "Graph",
    "Job",
    "Module",
    "Sequential",
    "Verdict",
    "carry",
    "compare",
    "evaluate",
    "evaluate_boxes",
    "extract",
    "find_boxes",
    "load",
    "load_job",
    "operator",
    "pack",
    "run",
    "save",
    "save_weights",
    "symbol",
    "time_layers",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from netweave import api

        return getattr(api, name)
    raise AttributeError(f"module 'netweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

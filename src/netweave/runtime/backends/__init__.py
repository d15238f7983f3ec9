"""Runs a Graph on one of the available backends.

A backend is a module here with ``prepare(graph, taps, settings) -> Runner``; it is loaded when first needed.
``selection`` chooses the fastest by trying.
"""

from netweave.runtime.backends.runner import (
    AUTO,
    BACKENDS,
    PRECISIONS,
    TAPPING,
    Purpose,
    Runner,
    RunSettings,
    prepare,
    prepare_nodes,
)

__all__ = [
    "AUTO",
    "BACKENDS",
    "PRECISIONS",
    "TAPPING",
    "Purpose",
    "RunSettings",
    "Runner",
    "prepare",
    "prepare_nodes",
]

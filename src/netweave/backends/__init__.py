"""Runs a Graph on one of the available backends.

A backend is a module here with ``prepare(graph, taps) -> Runner``; it is loaded when first needed.
"""

from netweave.backends.runner import BACKENDS, Runner, prepare

__all__ = ["BACKENDS", "Runner", "prepare"]

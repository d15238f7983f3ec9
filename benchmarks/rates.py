"""Rates of a loader in a process of its own: Python's own library alone, for any interpreter."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def rate(take: Callable[[], object], count: int, seconds: float) -> float:
    """Return the images per second of a function that takes so many each time."""
    taken, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        take()
        taken += count
    return taken / (time.perf_counter() - began)


def serve(take: Callable[[], object], count: int) -> None:
    """Answer each number of seconds on standard input with a rate, until it ends."""
    rate(take, count, 1.0)
    print("@{}", flush=True)
    for line in sys.stdin:
        print("@" + json.dumps({"rate": rate(take, count, float(line))}), flush=True)

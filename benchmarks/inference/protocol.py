"""What the processes of the measurement say to each other: lines of JSON, by Python's own library and NumPy.

A worker makes a net ready, runs it once and writes the output to a file; then it runs as often as it is told,
when it is told.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WARM_UP = 3
"""Runs before the first that counts: buffers grow, threads start, and what is compiled late is compiled."""

BLOCK_S = 0.25
"""Runs follow one another for so long in each round, but there is at least one."""


def draw(batch: int, image: tuple[int, ...]) -> np.ndarray:
    """Return the input that all candidates are given."""
    drawn: np.ndarray = np.random.RandomState(0).standard_normal((batch, *image)).astype(np.float32)
    return drawn


def serve(run: Callable[[], np.ndarray], output: str, *, name: str, start_s: float) -> None:
    """Run a net as it is asked for on standard input, until it ends.

    Args:
        run: Runs the net once on its input.
        output: File for the output of the first run.
        name: What computes, with its version.
        start_s: How long it took to make the net ready.
    """
    began = time.perf_counter()
    np.save(output, np.asarray(run(), np.float32))
    first_s = time.perf_counter() - began
    for _ in range(WARM_UP):
        run()
    say({"name": name, "start_s": start_s, "first_s": first_s})
    for _ in sys.stdin:
        run()  # threads and caches of the others' turns are not this one's to pay for
        seconds: list[float] = []
        while not seconds or sum(seconds) < BLOCK_S:
            began = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - began)
        say({"seconds": seconds})


def say(content: dict[str, Any]) -> None:
    """Write a line that the other side waits for."""
    print("@" + json.dumps(content), flush=True)

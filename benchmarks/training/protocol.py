"""What the processes of the measurement say to each other: lines of JSON. Only Python's own library.

A worker says how many parameters its net has, and then makes as many steps as it is told, when it is told.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 2
"""Steps before the first that counts."""

RATE, MOMENTUM, DECAY, CLASSES = 0.001, 0.9, 5e-4, 1000
"""The optimizer, the same for all."""


def serve(num_parameters: int, step: Callable[[], float], *, name: str = "") -> None:
    """Make steps as they are asked for on standard input, until it ends.

    Args:
        num_parameters: Elements of the net's parameters.
        step: Makes one step and returns the loss.
        name: What computes, with its version.
    """
    losses = [step() for _ in range(WARM_UP)]
    assert all(map(math.isfinite, losses)), losses
    say({"parameters": num_parameters, "name": name})
    for line in sys.stdin:
        wall, cpu = [], []
        for _ in range(int(line)):
            began, busy = time.perf_counter(), time.process_time()
            loss = step()
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - busy)
            assert math.isfinite(loss), loss
        say({"wall": wall, "cpu": cpu})


def say(content: dict[str, Any]) -> None:
    """Write a line that the other side waits for."""
    print("@" + json.dumps(content), flush=True)

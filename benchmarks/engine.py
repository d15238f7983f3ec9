"""What the engine costs: microseconds from push to start, and per task, with their spread.

    python benchmarks/engine.py [--repeats N] [--json FILE]

Each figure is measured ``repeats`` times; shown are the median and the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.runtime.engine import SerialEngine, ThreadedEngine, Variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.runtime.engine import Engine

TASKS = 2000


def push_to_start(engine: Engine) -> float:
    """Microseconds from a push on an idle lane to the start of the task, the pusher waiting."""
    pushed = time.perf_counter_ns()
    start = engine.push(time.perf_counter_ns).result()
    time.sleep(0.0002)  # let the lane fall asleep again
    return (start - pushed) / 1000


def round_trip(engine: Engine) -> float:
    """Microseconds from a push on an idle lane to its result in the pusher's hands."""
    before = time.perf_counter_ns()
    engine.push(int).result()
    spent = time.perf_counter_ns() - before
    time.sleep(0.0002)
    return spent / 1000


def chain(engine: Engine) -> float:
    """Microseconds per task of a chain that all write one variable, pushing included."""
    variable = Variable()
    before = time.perf_counter_ns()
    for _ in range(TASKS):
        engine.push(int, writes=[variable])
    engine.wait_for(variable)
    return (time.perf_counter_ns() - before) / 1000 / TASKS


def fan(engine: Engine) -> float:
    """Microseconds per task where 4 variables are written in turn and each task reads another one."""
    variables = [Variable() for _ in range(4)]
    before = time.perf_counter_ns()
    for i in range(TASKS):
        engine.push(int, reads=[variables[(i + 1) % 4]], writes=[variables[i % 4]], lane="input")
    engine.wait_all()
    return (time.perf_counter_ns() - before) / 1000 / TASKS


CASES: dict[str, tuple[Callable[[Engine], float], int]] = {  # with how many measurements per repeat
    "push to start, idle lane": (push_to_start, 200),
    "push to result, idle lane": (round_trip, 200),
    "per task, one chain": (chain, 1),
    "per task, four variables, two threads": (fan, 1),
}


def measure(repeats: int) -> dict[str, dict[str, float]]:
    """Run all cases on both engines, interleaved."""
    figures: dict[str, list[float]] = {}
    for _ in range(repeats):
        for kind in (ThreadedEngine, SerialEngine):
            with kind({"compute": 1, "input": 2}) as engine:
                for name, (case, times) in CASES.items():
                    found = figures.setdefault(f"{kind.__name__}: {name}", [])
                    found.extend(case(engine) for _ in range(times))
    names = ("p10", "median", "p90")
    return {
        name: dict(zip(names, np.percentile(found, (10, 50, 90)).round(1).tolist(), strict=True))
        for name, found in figures.items()
    }


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options.repeats)
    for name, figure in figures.items():
        print(f"{name:55s} {figure['median']:7.1f} us  ({figure['p10']:.1f} to {figure['p90']:.1f})")
    if options.json:
        about = {"python": platform.python_version(), "machine": platform.processor() or platform.machine()}
        options.json.write_text(json.dumps({**about, "unit": "us", "figures": figures}, indent=2))


if __name__ == "__main__":
    main()

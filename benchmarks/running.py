"""What starting and running nets on ONNX Runtime costs, with and without the settings of decision 0005.

::

    python benchmarks/running.py [--repeats N]

Shown are medians with the smallest and largest of the repeats. "Without" undoes one setting at a time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from netweave.graph import GraphBuilder, Parameter
from netweave.runtime.backends import prepare
from netweave.runtime.backends.onnxruntime import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from netweave.graph import Graph
    from netweave.runtime.backends.onnxruntime.session import SessionSettings


def chain(length: int) -> Graph:
    """A chain of cheap nodes of unknown sizes."""
    builder = GraphBuilder("chain", format="onnx")
    x = builder.input("x", (1, 8, None, None))
    for index in range(length):
        x = builder.add("Relu" if index % 2 else "Neg", [x])
    return builder.finish([x])


def product(size: int) -> Graph:
    """One product with ``size`` times ``size`` weights."""
    builder = GraphBuilder("product", format="onnx")
    x = builder.input("x", (1, size))
    weights = builder.parameter(Parameter("w", (size, size)), np.ones((size, size), np.float32))
    return builder.finish([builder.add("MatMul", [x, weights])])


def seconds_to_start(graph: Graph) -> float:
    """Seconds until a graph is ready to run."""
    start = time.perf_counter()
    prepare(graph)
    return time.perf_counter() - start


def seconds_for_each(graph: Graph, count: int) -> float:
    """Seconds to start and run one session among ``count`` that stay alive."""
    x = np.ones((1, 8, 4, 4), np.float32)
    alive = []
    start = time.perf_counter()
    for _ in range(count):
        alive.append(prepare(graph))
        alive[-1].run({"x": x})
    return (time.perf_counter() - start) / count


@contextmanager
def without(change: Callable[[Any], None] | None) -> Iterator[None]:
    """Undo a setting of every session that is started inside."""
    options = session._options

    def changed(settings: SessionSettings, num_threads: int) -> Any:
        made = options(settings, num_threads)
        if change is not None:
            change(made)
        return made

    session._options = changed
    try:
        yield
    finally:
        session._options = options


def spinning(options: Any) -> None:
    """Let idle threads spin."""
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")


def planner(options: Any) -> None:
    """Plan which buffers to use again."""
    options.enable_mem_reuse = True


def prepacking(options: Any) -> None:
    """Keep a second copy of the weights, in another order."""
    options.add_session_config_entry("session.disable_prepacking", "0")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time starting and running nets on ONNX Runtime.")
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    few, many, large = chain(1), chain(4000), product(8192)
    measures = {
        "one of 100 sessions of one node, threads that spin": (lambda: seconds_for_each(few, 100), spinning),
        "4,000 nodes, buffers planned": (lambda: seconds_to_start(many), planner),
        "268 MB of weights, prepacked": (lambda: seconds_to_start(large), prepacking),
    }
    ort.set_default_logger_severity(3)  # it warns of every setting that is undone
    prepare(few)
    print(f"{os.cpu_count()} cores; milliseconds: as it is, and so")
    for title, (measure, setting) in measures.items():
        shown = []
        for change in (None, setting):
            with without(change):
                times = [1000 * measure() for _ in range(repeats)]
            shown.append(f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})")
        print(f"{title}: {shown[0]}, {shown[1]}")


if __name__ == "__main__":
    main()

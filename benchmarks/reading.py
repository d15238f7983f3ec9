"""Reading and comparing in two checkouts side by side, so that a change is not slower than what it replaces.

::

    python -m benchmarks reading OTHER [--corpus DIR] [--rounds N] [--every N] [--json FILE]

``OTHER`` is another checkout of Netweave. Each runs in a process of its own and is given the same task in
turn, in an order drawn anew: to read a file of the corpus, or to compare a net with itself. A file that one
of them refuses is left out. A task is timed in processor time, which other work on the machine disturbs
little, without garbage collection, and the least of the rounds counts: what is above it is disturbance. The
first reading of a file is left out, since it loads the modules of its format.

Shown is the time of this checkout over the other's: over all files together, and the median of the files.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import Namespace, Record, option
from benchmarks.worker import Worker

HERE = Path(__file__).parents[1]

SUFFIXES = (".prototxt", "-symbol.json", ".conf", ".pb", ".caffemodel", ".onnx")
"""Ends of the names of nets in the corpus."""

COMPARED = 6
"""So many files, the quickest to read, are compared with themselves: large nets spend their time running."""

WORKER = """
import gc, json, sys, time
import netweave

def read(file):
    return lambda: netweave.load(file)

def compare(file):
    net = netweave.load(file)
    return lambda: netweave.compare(net, net)

made = {}
gc.disable()
print("@{}", flush=True)
for line in sys.stdin:
    task, file = line.rstrip().split(" ", 1)
    gc.collect()
    try:
        if (task, file) not in made:
            made[task, file] = {"read": read, "compare": compare}[task](file)
        begin = time.process_time()
        made[task, file]()
        seconds = time.process_time() - begin
    except netweave.errors.NetweaveError:
        seconds = None
    print("@" + json.dumps({"seconds": seconds}), flush=True)
"""


def seconds_of(worker: Worker, task: str, file: Path) -> float | None:
    """Return the processor time of a task in seconds; None if it is refused."""
    answer = worker.ask(f"{task} {file}")["seconds"]
    return None if answer is None else float(answer)


def measure(workers: list[Worker], task: str, files: list[Path], rounds: int) -> dict[Path, list[float]]:
    """Return the least time of a task in each checkout, by file; without those that one of them refuses."""
    times: dict[Path, tuple[list[float], list[float]]] = {file: ([], []) for file in files}
    for _ in range(rounds + 1):
        # file by file in every round, so that what a checkout remembers of a file is gone when it comes again
        for file in list(times):
            for number in random.sample(range(2), 2):
                spent = seconds_of(workers[number], task, file)
                if spent is None:
                    del times[file]
                    break
                times[file][number].append(spent)
    return {file: [min(each[1:]) for each in both] for file, both in times.items()}


OPTIONS = (
    option("other", type=Path),
    option("--corpus", type=Path, default=os.environ.get("NETWEAVE_CORPUS")),
    option("--rounds", default=5),
    option("--every", default=1, help="of so many files one is read"),
)


def main(options: Namespace, record: Record) -> None:
    """Measure and show."""
    command = [sys.executable, "-c", WORKER]
    workers = [Worker(command, 1, folder) for folder in (HERE, options.other.resolve())]
    files = sorted(p for p in options.corpus.rglob("*") if p.name.endswith(SUFFIXES))[:: options.every]
    result: dict[str, Any] = {}
    for task in ("read", "compare"):
        rows = measure(workers, task, files, options.rounds)
        files = sorted(rows, key=lambda file: rows[file][0])[:COMPARED]
        if not rows:
            continue
        own, other = (sum(times[number] for times in rows.values()) for number in range(2))
        middle = median(times[0] / times[1] for times in rows.values())
        print(
            f"{task}: {len(rows)} files, {own:.3f} s against {other:.3f} s: ratio {own / other:.3f}, ", end=""
        )
        print(f"median {middle:.3f}", flush=True)
        result[task] = {"files": len(rows), "ratio": own / other, "median": middle, "seconds": [own, other]}
    record.save(result)

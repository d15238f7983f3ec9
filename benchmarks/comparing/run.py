"""Time and peak memory of ``netweave compare`` and ``convert`` on everyday nets, before and after, in turns.

::

    python -m benchmarks comparing --before OTHER_CHECKOUT --runs 2 --json benchmarks/comparing/result.json

Each net is written twice, as two people would (``writer.py``), with drawn weights: once as the same net, once
with one output channel of one filter negated. Every comparison and conversion is a process of its own; in
each round every checkout runs once, one after the other. Written are medians of whole processes, start of
Python and reading included, their processor time, which other programs disturb less, and the largest resident
memory, which counts mapped files as well.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.comparing.nets import NETS
from benchmarks.comparing.writer import NetWriter
from benchmarks.measured_process import ROOT, Ended, run_netweave
from benchmarks.record import Namespace, Record, option
from benchmarks.scale.generate import pair_names, write_pair

SCALE = "the scale pair"
"""Two nets of 5,786 and 7,850 nodes, of which the second lacks blocks (``benchmarks/scale``)."""

SCALE_BLOCKS = 360, 5

DAMAGED = 7
"""Number of the filter that is damaged."""

LIMIT = "1GB"


@dataclass(frozen=True, slots=True)
class Task:
    """One command that is measured.

    Attributes:
        name: What it is.
        command: Arguments of ``netweave``.
        status: The exit status that is right.
        is_new: Whether checkouts of before do not know it.
        may_be_refused: Whether the limit may be refused as too small for the nets, before they are run.
    """

    name: str
    command: tuple[str, ...]
    status: int
    is_new: bool = False
    may_be_refused: bool = False


def write_net(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """Write a net, the same in another manner, and this one with a damaged filter; return the files."""
    paths = tuple(folder / f"{name}-{kind}.onnx" for kind in ("net", "port", "damaged"))
    for path, writer in zip(
        paths, (NetWriter(False), NetWriter(True), NetWriter(True, DAMAGED)), strict=True
    ):
        if not path.is_file():
            inputs, outputs = NETS[name](writer)
            writer.save(path, inputs, outputs)
    return paths[0], paths[1], paths[2]


def tasks_of(name: str, folder: Path) -> list[Task]:
    """Return what is measured of a net; its files are written if they are not there yet."""
    if name == SCALE:
        files = tuple(folder / stem for stem in pair_names(*SCALE_BLOCKS))
        if not all(file.is_file() for file in files):
            files = write_pair(folder, blocks=SCALE_BLOCKS[0], removed=SCALE_BLOCKS[1])
        return [Task("compare, different", ("compare", *map(str, files)), 1)]
    net, port, damaged = map(str, write_net(name, folder))
    has_filters = name != "BERT-base"
    tasks = [Task("compare, equal", ("compare", net, port), 0)]
    if has_filters and name != "Swin-T":
        tasks.append(Task("compare, damaged", ("compare", net, damaged), 1))
    limited = ("compare", net, port, "--memory", LIMIT)
    tasks.append(Task(f"compare, equal, --memory {LIMIT}", limited, 0, is_new=True, may_be_refused=True))
    target = str(folder / f"{name}-converted.onnx")
    tasks.append(Task("convert to ONNX", ("convert", net, target), 0))
    return tasks


def run(checkout: Path, task: Task) -> Ended:
    """Run a command with the code of a checkout.

    Raises:
        RuntimeError: It ends with another status than is right.
    """
    ended = run_netweave(task.command, checkout=checkout)
    if ended.status != task.status and not is_refused(task, ended):
        words, expected = " ".join(task.command), task.status
        raise RuntimeError(f"netweave {words}: {ended.status}, expected {expected}: {ended.complaint}")
    return ended


def is_refused(task: Task, ended: Ended) -> bool:
    """Return whether the limit of a task was refused as too small."""
    return task.may_be_refused and ended.status == 2 and "--memory" in ended.complaint


def measure(name: str, folder: Path, checkouts: dict[str, Path], runs: int) -> list[dict[str, Any]]:
    """Return a row for each task of a net."""
    rows = []
    # the largest memory of a process is counted on in what it starts, so that another one writes the nets
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as writing:
        tasks = writing.submit(tasks_of, name, folder).result()
    for task in tasks:
        known = {label: path for label, path in checkouts.items() if label == "now" or not task.is_new}
        found: dict[str, list[Ended]] = {label: [] for label in known}
        problem = ""
        for _ in range(runs):
            for label, path in known.items():
                try:
                    found[label].append(run(path, task))
                except RuntimeError as error:
                    problem = str(error)
        row: dict[str, Any] = {"net": name, "task": task.name}
        for label, measured in found.items():
            if measured:
                row[label] = {
                    "seconds": round(statistics.median(one.seconds for one in measured), 2),
                    "cpu_seconds": round(statistics.median(one.cpu_seconds for one in measured), 2),
                    "peak_mb": round(max(one.peak_mb for one in measured)),
                } | ({"refused": True} if is_refused(task, measured[0]) else {})
        rows.append(row | ({"problem": problem} if problem else {}))
        print(json.dumps(rows[-1]), flush=True)
    return rows


OPTIONS = (
    option("--before", type=Path, help="another checkout, which runs in turns with this one"),
    option("--runs", default=2),
    option("--net", action="append", choices=[*NETS, SCALE], help="these nets alone"),
    option("--folder", type=Path, help="keeps the nets for the next time"),
)


def main(options: Namespace, record: Record) -> None:
    """Measure all nets; print and write what they took."""
    checkouts = ({"before": options.before.resolve()} if options.before else {}) | {"now": ROOT}
    measured: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in options.net or [*NETS, SCALE]:
            measured += measure(name, folder, checkouts, options.runs)
            rows = merged(record.results.get("rows", []), measured)
            record.save({"runs": options.runs, "rows": rows})


def merged(known: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows after those that are known of other nets."""
    names = {row["net"] for row in rows}
    return [row for row in known if row["net"] not in names] + rows

"""How the time and memory of ``netweave compare`` grow with the nets: whole processes, files and values.

::

    python -m benchmarks scale --runs 3 --json benchmarks/scale/result.json

compares pairs of 500 to 20,000 nodes, and the pair of 5,786 and 7,850, each in a process of its own. The
sizes take turns, so that whatever else the machine does falls on all of them. Written are medians with the
smallest and largest of the runs, the time of each stage, the peak of the memory, and the exponent ``p`` of
``seconds = c * nodes ** p``; for ``n log n`` over this range it would be about 1.12.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from benchmarks.measured_process import run_netweave
from benchmarks.record import Namespace, Record, option
from benchmarks.scale.generate import pair_names, write_pair

PAIRS = {
    "500": (30, 5),
    "1,000": (60, 5),
    "2,000": (125, 5),
    "5,000": (310, 5),
    "the pair": (360, 5),
    "10,000": (625, 5),
    "20,000": (1250, 5),
}
"""Blocks of the first net and how many of them the second lacks, by the nodes of the first net."""

ASYMPTOTIC = 4000
"""Nodes of both nets together from which on the fixed costs matter little."""


@dataclass(slots=True)
class Pair:
    """Two nets and what comparing them took, run by run."""

    files: tuple[Path, Path]
    nodes: tuple[int, int]
    seconds: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Compare them once, in a process of its own.

        Raises:
            RuntimeError: The comparison did not find the missing blocks.
        """
        ended = run_netweave(("compare", *map(str, self.files), "--json", "-"))
        if ended.status != 1:
            raise RuntimeError(f"netweave compare ended with {ended.status}, expected 1: {ended.complaint}")
        self.seconds.append(ended.seconds)
        self.stages.append(json.loads(ended.said)["seconds"])
        self.peak_mb.append(ended.peak_mb)

    def summary(self) -> dict[str, Any]:
        """Return medians and spreads."""
        return {
            "nodes": self.nodes,
            "seconds": _spread(self.seconds),
            "comparing_seconds": _spread([sum(stages.values()) for stages in self.stages]),
            "stages": {
                stage: round(statistics.median(found[stage] for found in self.stages), 3)
                for stage in self.stages[0]
            },
            "peak_mb": round(max(self.peak_mb)),
        }


def _spread(values: list[float]) -> dict[str, float]:
    named = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, 3) for name, value in named.items()}


def make_pairs(folder: Path) -> dict[str, Pair]:
    """Write the pairs, those that are not there yet."""
    found = {}
    for name, (blocks, removed) in PAIRS.items():
        files = tuple(folder / stem for stem in pair_names(blocks, removed))
        if not all(file.is_file() for file in files):
            files = write_pair(folder, blocks=blocks, removed=removed)
        first, second = files
        nodes = len(onnx.load(first).graph.node), len(onnx.load(second).graph.node)
        found[name] = Pair((first, second), nodes)
    return found


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of the line through the logarithms, by least squares.

    >>> round(exponent([10, 100, 1000], [3.0, 30.0, 300.0]), 6)
    1.0
    """
    return statistics.linear_regression([math.log(n) for n in sizes], [math.log(s) for s in seconds]).slope


def exponents(pairs: dict[str, Pair], what: str) -> dict[str, float]:
    """Return the exponent over all sizes and over the large ones."""
    rows = [(sum(pair.nodes), pair.summary()[what]["median"]) for pair in pairs.values()]
    large = [row for row in rows if row[0] >= ASYMPTOTIC]
    named = {"all": rows, f"from {ASYMPTOTIC:,} nodes": large}
    return {name: round(exponent(*map(list, zip(*found, strict=True))), 3) for name, found in named.items()}


OPTIONS = (
    option("--runs", default=3),
    option("--folder", type=Path, help="keeps the nets for the next time"),
)


def main(options: Namespace, record: Record) -> None:
    """Compare all pairs several times; print and write what it took."""
    with tempfile.TemporaryDirectory() as temporary:
        pairs = make_pairs(options.folder or Path(temporary))
        for _ in range(options.runs):
            for pair in pairs.values():
                pair.run()
    result = {
        "runs": options.runs,
        "pairs": {name: pair.summary() for name, pair in pairs.items()},
        "exponent": {what: exponents(pairs, what) for what in ("seconds", "comparing_seconds")},
    }
    for name, row in result["pairs"].items():
        whole, comparing = row["seconds"], row["comparing_seconds"]
        print(
            f"{name}: {row['nodes'][0]:,} and {row['nodes'][1]:,} nodes: {whole['median']:.2f} s "
            f"({whole['least']:.2f} to {whole['most']:.2f}), of which comparing {comparing['median']:.2f} s; "
            f"{row['peak_mb']:,} MB"
        )
    print(f"exponents: {result['exponent']}")
    record.save(result)

"""Pipelines against one process: nets, stages, micro-batches and orders of passes, 20 updates in float64.

::

    python -m benchmarks parallel.pipelines

For each net, number of stages, number of micro-batches and order of passes: the largest difference of any
parameter or loss from one process. A net with batch normalisation is held against one process that
accumulates batches of the size of a micro-batch, as each of them is normalised by itself. Stages are cut by
cost, or, where the net says so, such that residual connections skip stages.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.record import Namespace, Record, option
from netweave.training.parallel.plan import PIPELINES
from tests.training.parallel.ranks import Case, alone, run


@dataclass(frozen=True)
class Net:
    """A net that is trained.

    Attributes:
        name: Of ``tests.training.parallel.nets``.
        micro_batches: Numbers of micro-batches.
        cuts: Locations of its layers by the number of stages, where they are not cut by cost.
        is_normalised: Whether it normalises each micro-batch by itself.
        stages: Most stages.
    """

    name: str
    micro_batches: tuple[int, ...] = (1, 2, 4, 8)
    cuts: dict[int, str] = field(default_factory=dict)
    is_normalised: bool = False
    stages: int = 4


BLOCK = {2: "conv1=0 bn2=1", 3: "conv1=0 bn2=1 out=2", 4: "conv1=0 bn1=1 bn2=2 out=3"}
SKIPS = {2: "conv1=0 conv2=1", 3: "conv1=0 conv2=1 sum=2", 4: "conv1=0 conv2=1 conv3=2 sum=3"}

NETS = (
    Net("mlp", (1, 2, 5), {3: "ip1=0 relu=1 out=2", 4: "ip1=0 relu=1 out=2 loss=3"}),
    Net("ignored", (1, 2, 5), {3: "ip1=0 relu=1 out=2", 4: "ip1=0 relu=1 out=2 loss=3"}),
    Net("lenet"),
    Net("smooth"),
    Net("grouped"),
    Net("skips", cuts=SKIPS),
    Net("skips", (4,)),
    Net("residual", cuts=BLOCK, is_normalised=True),
)

OPTIONS = (option("--stages", default="2,3,4", metavar="NUMBERS", help="with commas between"),)


def main(options: Namespace, record: Record) -> None:
    """Train all, print the largest differences, and write them."""
    with tempfile.TemporaryDirectory() as name:
        for size in map(int, options.stages.split(",")):
            folder = Path(name) / str(size)
            cases = cases_of(size)
            found = run(folder, list(cases), size)
            for case, batches in cases.items():
                expected = alone(Path(name) / "alone", Case(case.name, case.net, batches=batches))
                assert expected.keys() == found[case.name].keys()
                most = max(
                    float(np.abs(found[case.name][key] - array).max())
                    for key, array in expected.items()
                    if array.size
                )
                record.results[f"{case.name}, {size} stages"] = most
                print(f"{size} stages, {case.name:32} {most:.1e}", flush=True)
    print(f"{len(record.results)} runs, largest difference {max(record.results.values()):.1e}")
    record.save()


def cases_of(size: int) -> dict[Case, int]:
    """Return the trainings on so many stages, and the batches that one process accumulates instead."""
    cases = {}
    for net in NETS:
        cuts = net.cuts.get(size, "")
        for count in net.micro_batches if size <= net.stages else ():
            for order in PIPELINES[: 1 + (count > 1)]:
                where = "" if cuts else " by cost"
                name = f"{net.name}{where}, {count} x {order}"
                case = Case(name, net.name, micro_batches=count, pipeline=order, cuts=cuts)
                cases[case] = count if net.is_normalised else 1
    return cases

"""The exchange of gradients on slow links: Netweave's orders beside PyTorch DDP, in one interleaved run.

::

    sudo python -m benchmarks parallel CASE [--sweep] [--only NAME,...] [--rounds N] [--steps N]
        [--json FILE]

Each case is a net, a link and a batch (``CASES``). Two processes (four with two levels) on two network
namespaces of this machine stand for as many machines, see ``network.py``. All candidates are built in the
same processes and make steps in turn, in an order drawn anew in every round; a step's time is the mean
distance between the moments at which the losses of consecutive steps are known. Netweave's candidates are
whole training runs with their loaders; PyTorch's are loops over the same lowered module with a fused SGD.
Shown are the median of the rounds, the fastest and the slowest; the ratio to one blocking all-reduce after
backward, and to the fastest DDP, as medians of the ratios within each round; the processor's milliseconds of
a step; and, of Netweave's, those in which there was an exchange and nothing was computed (exposed).

Behind the table stands the critical path (``critical_path.py``): the shortest time that a step could take
with the stages measured in a process without exchange and the link measured without computation.

The cases ``same-bits-*`` have the price of the same bits on any number of ranks: how many times as long as
with the overlapped exchange a step takes, with one shard for each rank (the exchange alone) and with eight
(also four smaller passes instead of one), as the median of the ratios within each round.

The cases ``exact-*`` have a loop of PyTorch's with ``netweave.exact``, whose gradients are sent during
backward or after it (``later``), beside DDP.

``--sweep`` looks for the best bucket size of DDP.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.parallel.critical_path import pieces, step_s
from benchmarks.parallel.network import network
from benchmarks.parallel.ranks import Ranks, started
from benchmarks.record import Namespace, Record, option

BLOCKING, ALONE = "torch:flat", "netweave:alone"
OVERLAPPED, SAME_BITS = "netweave:overlapped", "netweave:same-bits"
BUCKETS_MB = (1, 2, 5, 10, 25)
TRACED_STEPS = 6


@dataclass(frozen=True)
class Case:
    """What is measured together.

    Attributes:
        net: Of ``nets.NETS``.
        rate: Of the link; empty for the loopback.
        batch: Images in the whole batch.
        bucket_mb: DDP's best bucket, as ``--sweep`` finds it.
        rounds: How often each candidate has its turn.
        steps: Of a turn.
        ranks: On two nodes, as many on each.
        compressed: Compressions of Netweave's in the table; DDP's fp16 stands beside them.
        levels: Whether it compares two levels with a flat ring instead.
        shards: Numbers of shards of updates with the same bits, which it compares with the others instead.
        hybrid: Whether it compares data parallelism with a cut of dense layers by feature instead.
        exact: Whether it compares loops of PyTorch's with ``netweave.exact`` and DDP instead.
    """

    net: str
    rate: str
    batch: int
    bucket_mb: int
    rounds: int
    steps: int
    ranks: int = 2
    compressed: tuple[str, ...] = ()
    levels: bool = False
    shards: tuple[int, ...] = ()
    hybrid: bool = False
    exact: bool = False

    def candidates(self) -> list[str]:
        """Return the names of the candidates."""
        ours = [f"netweave:{kind}" for kind in ("blocking", "overlapped", "prioritised", "owner")]
        if self.levels:
            return [BLOCKING, f"torch:ddp-{self.bucket_mb}", *ours[1:3], "netweave:two-level", ALONE]
        if self.exact:
            own = [f"exact:{count}{when}" for count in self.shards for when in ("", ":later")]
            return [BLOCKING, f"torch:ddp-{self.bucket_mb}", *own]
        if self.shards:
            same = [f"{SAME_BITS}:shards={count}" for count in self.shards]
            return [BLOCKING, f"torch:ddp-{self.bucket_mb}", OVERLAPPED, *same]
        if self.hybrid:
            return [BLOCKING, f"torch:ddp-{self.bucket_mb}", *ours[1:3], "netweave:hybrid", ALONE]
        ddp = list(dict.fromkeys(["torch:ddp-25", f"torch:ddp-{self.bucket_mb}"]))
        fewer = [f"netweave:prioritised:{name}" for name in self.compressed]
        if fewer:
            fewer.append(f"torch:ddp-{self.bucket_mb}-fp16")
        return [BLOCKING, "torch:parameter", *ddp, *ours, *fewer, ALONE]


CASES = {
    "resnet18-1gbit": Case(
        "ResNet-18", "1gbit", 48, 1, rounds=5, steps=5, compressed=("fp16", "bf16", "2bit")
    ),
    "resnet18-200mbit": Case("ResNet-18", "200mbit", 224, 1, rounds=3, steps=2, compressed=("fp16", "2bit")),
    "resnet18-200mbit-small": Case("ResNet-18", "200mbit", 48, 1, rounds=3, steps=2),
    "alexnet-1gbit": Case("AlexNet", "1gbit", 160, 1, rounds=3, steps=2),
    "hybrid-1gbit": Case("AlexNet", "1gbit", 64, 25, rounds=3, steps=1, hybrid=True),
    "hybrid-200mbit": Case("AlexNet", "200mbit", 64, 25, rounds=3, steps=1, hybrid=True),
    "resnet18-loopback": Case("ResNet-18", "", 48, 25, rounds=6, steps=5),
    "same-bits-loopback": Case("ResNet-18", "", 48, 25, rounds=5, steps=3, shards=(2, 8)),
    "same-bits-1gbit": Case("ResNet-18", "1gbit", 48, 1, rounds=5, steps=3, shards=(2, 8)),
    "same-bits-200mbit": Case("ResNet-18", "200mbit", 48, 1, rounds=3, steps=2, shards=(2, 8)),
    "exact-loopback": Case("ResNet-18", "", 48, 25, rounds=5, steps=3, shards=(2, 8), exact=True),
    "exact-1gbit": Case("ResNet-18", "1gbit", 48, 1, rounds=5, steps=3, shards=(2, 8), exact=True),
    "exact-200mbit": Case("ResNet-18", "200mbit", 48, 1, rounds=3, steps=2, shards=(2, 8), exact=True),
    "levels-200mbit": Case("ResNet-18", "200mbit", 16, 1, rounds=4, steps=3, ranks=4, levels=True),
}


def measure(
    ranks: Ranks, names: list[str], case: Case, after_round: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Return the figures of all candidates; give those of the rounds so far to a function after each."""
    for name in names:
        ranks.ask("load", name=name)
    wall: dict[str, list[float]] = {name: [] for name in names}
    processor: dict[str, list[float]] = {name: [] for name in names}
    exposed: dict[str, list[float]] = {name: [] for name in names}
    shuffle = random.Random(0)
    for _ in range(case.rounds):
        for name in shuffle.sample(names, len(names)):
            answers = ranks.ask("steps", name=name, count=case.steps + 1)
            known = [answer["known_s"] for answer in answers]
            wall[name].append(max((row[-1] - row[0]) / case.steps for row in known) * 1e3)
            processor[name].append(max(answer["processor_s"] for answer in answers) * 1e3)
            exposed[name].append(max(answer["exposed_s"] for answer in answers) * 1e3)
        after_round(_figures(wall, processor, exposed))
    return _figures(wall, processor, exposed)


def _figures(
    wall: dict[str, list[float]], processor: dict[str, list[float]], exposed: dict[str, list[float]]
) -> dict[str, Any]:
    """Return the figures of candidates from the milliseconds of a step in each round."""
    names = list(wall)
    ddp = [name for name in names if name.startswith("torch:ddp") and not name.endswith("fp16")]
    best = min(ddp, key=lambda name: median(wall[name]), default=BLOCKING)
    return {
        name: {
            "ms": round(median(wall[name]), 1),
            "fastest": round(min(wall[name]), 1),
            "slowest": round(max(wall[name]), 1),
            "of blocking": _ratio(wall[BLOCKING], wall[name]),
            "of best DDP": _ratio(wall[best], wall[name]),
            "processor ms": round(median(processor[name]), 1),
            "exposed ms": round(median(exposed[name]), 1),
            "rounds": [round(value, 1) for value in wall[name]],
        }
        | ({"price": _ratio(wall[name], wall[OVERLAPPED])} if name.startswith(SAME_BITS) else {})
        for name in names
    }


def critical_path(ranks: Ranks, case: Case) -> dict[str, float]:
    """Return the shortest times of a step in each order, in milliseconds."""
    about = ranks.about
    megabytes = about["parameters"] * 4 / 1e6
    link = ranks.ask("link", megabytes=megabytes, repeats=5)
    link_s = median(link[0]["seconds"])
    with tempfile.TemporaryDirectory() as folder:
        stage_bytes = ranks.ask("trace", name=ALONE, count=TRACED_STEPS, path=f"{folder}/alone")[0]["bytes"]
        stages = pieces(Path(f"{folder}/alone.0.json"), stage_bytes, link_s=link_s)
    exchange_s = max(answer["processor_s"] for answer in link)
    compute_s = sum(one.forward_s + one.backward_s + one.update_s for one in stages)
    found = {order: step_s(stages, order=order) for order in ("blocking", "overlapped", "prioritised")}
    found |= {"link": link_s, "compute": compute_s, "processor of the exchange": exchange_s}
    # each rank has one processor, which computes and exchanges: no order is faster than both together
    found["with the processor of the exchange"] = max(found["prioritised"], compute_s + exchange_s)
    return {key: round(value * 1e3, 1) for key, value in found.items()} | {"MB": round(megabytes, 1)}


def show(title: str, rows: dict[str, Any]) -> None:
    """Print a table in Markdown."""
    print(
        f"\n{title}\n\n| | ms of a step | fastest to slowest | x blocking | x best DDP | processor ms | "
        "exposed ms |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        print(
            f"| {name} | {row['ms']:,.0f} | {row['fastest']:,.0f} to {row['slowest']:,.0f} | "
            f"{row['of blocking']:.2f} | {row['of best DDP']:.2f} | {row['processor ms']:,.0f} | "
            f"{row['exposed ms']:,.0f} |"
            + (f" {row['price']:.2f} times {OVERLAPPED}" if "price" in row else "")
        )


OPTIONS = (
    option("case", choices=CASES),
    option("--sweep", default=False),
    option("--only", help="candidates instead of the case's, with commas between"),
    option("--rounds", type=int),
    option("--steps", type=int),
)


def main(options: Namespace, record: Record) -> None:
    """Measure, print and write; see the head of the file."""
    given = {key: getattr(options, key) for key in ("rounds", "steps") if getattr(options, key)}
    case = Case(**{**asdict(CASES[options.case]), **given})
    names = options.only.split(",") if options.only else case.candidates()
    if options.sweep:
        names = [BLOCKING, *(f"torch:ddp-{size}" for size in BUCKETS_MB)]
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(network(case.rate)) if case.rate else ()
        placed = [nodes[rank * 2 // case.ranks] for rank in range(case.ranks)] if nodes else []
        ranks = stack.enter_context(started(case.net, case.batch, nodes=placed, count=case.ranks))
        key = f"{options.case} sweep" if options.sweep else options.case

        def keep(rows: dict[str, Any], path: dict[str, float] | None = None) -> None:
            measured = {"case": asdict(case), "candidates": rows, "critical path": path or {}}
            record.results[key] = measured | {"ranks": ranks.about}
            record.save()

        rows = measure(ranks, names, case, keep)
        path = critical_path(ranks, case) if ALONE in names else {}
    where = case.rate or "loopback"
    show(f"{case.net}, batch {case.batch} over {case.ranks} ranks, {where}", rows)
    if path:
        print("\ncritical path: " + ", ".join(f"{key} {value:,.0f}" for key, value in path.items()))
    keep(rows, path)


def _ratio(base: list[float], own: list[float]) -> float:
    """Return how many times faster than a base, as the median of the rounds' ratios."""
    return round(median(one / other for one, other in zip(base, own, strict=True)), 3)

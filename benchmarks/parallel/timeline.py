"""What the timeline of a rank says: how long processor and link were busy, and how much was hidden."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

COLLECTIVES = ("all-reduce", "reduce", "broadcast", "gather")

Interval = tuple[float, float]


@dataclass(frozen=True)
class Shares:
    """Shares of the time of a run.

    Attributes:
        compute: Of the time, in which a pass or an update was computed.
        link: Of the time, in which a collective of gradients was on its way.
        hidden: Of the link's time, in which the rank computed.
    """

    compute: float
    link: float
    hidden: float


def shares(trace: Path) -> Shares:
    """Return the shares of a rank from its timeline."""
    computing: list[Interval] = []
    sending: list[Interval] = []
    begun: dict[int, float] = {}
    for event in json.loads(trace.read_text()):
        if event.get("ph") == "X" and event["cat"] == "compute":
            computing.append((event["ts"], event["ts"] + event["dur"]))
        elif event["name"].startswith(COLLECTIVES) and event["ph"] == "b":
            begun[event["id"]] = event["ts"]
        elif event["name"].startswith(COLLECTIVES) and event["ph"] == "e":
            sending.append((begun.pop(event["id"]), event["ts"]))
    whole = [*computing, *sending]
    span = max(end for _, end in whole) - min(start for start, _ in whole)
    compute, link = _length(computing), _length(sending)
    both = compute + link - _length(whole)
    return Shares(compute / span, link / span, both / link if link else 0.0)


def _length(intervals: Iterable[Interval]) -> float:
    """Return how much time some intervals cover together.

    >>> _length([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total

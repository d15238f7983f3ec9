"""The shortest time that a step can take, from pieces that were measured one by one.

The pieces are the seconds of each stage's forward, backward and update in a process that exchanges nothing,
and the seconds of an all-reduce of all gradients with nothing beside it. The processor does the stages one
after another; the link carries one thing at a time, may leave off with one gradient for another at any
moment, and always carries the one of the earliest stage that is there. A stage's forward waits for its
parameters. As all transfers are needed in the order of the stages, no other order ends earlier.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class StagePieces:
    """What a stage takes.

    Attributes:
        forward_s: Seconds of its forward pass.
        backward_s: Seconds of its backward pass.
        update_s: Seconds of updating the parameters whose gradients its backward completes.
        link_s: Seconds of the link for these gradients.
    """

    forward_s: float
    backward_s: float
    update_s: float
    link_s: float


def step_s(stages: Sequence[StagePieces], *, order: str = "prioritised") -> float:
    """Return the seconds of a step in a run of many.

    Args:
        stages: In the order of the net.
        order: ``blocking`` (everything is sent after backward), ``overlapped`` (in the order of backward, the
            update when all is there) or ``prioritised``.

    >>> one, two = StagePieces(1.0, 2.0, 0.0, 1.0), StagePieces(1.0, 2.0, 0.0, 3.0)
    >>> step_s([one, two], order="blocking"), step_s([one, two], order="overlapped"), step_s([one, two])
    (10.0, 8.0, 7.0)
    """
    ready_s, now_s = [0.0] * len(stages), 0.0
    for number in reversed(range(len(stages))):
        now_s += stages[number].backward_s
        ready_s[number] = now_s
    if order == "blocking":
        ready_s = [now_s] * len(stages)
    links = [stage.link_s for stage in stages]
    there_s = _transfers(ready_s, links, by_stage=order == "prioritised")
    if order != "prioritised":
        there_s = [max(there_s)] * len(stages)
    for stage, arrived_s in zip(stages, there_s, strict=True):
        now_s = max(now_s, arrived_s) + stage.update_s + stage.forward_s
    return now_s


def _transfers(ready_s: Sequence[float], link_s: Sequence[float], *, by_stage: bool) -> list[float]:
    """Return when each transfer ends on a link that can leave off with one for another."""
    left = list(link_s)
    done = [0.0] * len(left)
    now_s = 0.0
    waiting = set(range(len(left)))
    while waiting:
        there = [number for number in waiting if ready_s[number] <= now_s]
        coming = [ready_s[number] for number in waiting if ready_s[number] > now_s]
        if not there:
            now_s = min(coming)
            continue
        number = min(there) if by_stage else min(there, key=lambda one: (ready_s[one], -one))
        until_s = min([now_s + left[number], *(coming if by_stage else [])])
        left[number] -= until_s - now_s
        now_s = until_s
        if left[number] <= 1e-12:
            done[number] = now_s
            waiting.remove(number)
    return done


def pieces(trace: Path, stage_bytes: Sequence[int], *, link_s: float) -> list[StagePieces]:
    """Return the pieces from the timeline of a run without exchange.

    Args:
        trace: The timeline.
        stage_bytes: Bytes of the gradients that each stage completes.
        link_s: Seconds of an all-reduce of all of them.
    """
    seconds: dict[tuple[str, int], list[float]] = {}
    updates: list[float] = []
    steps = set()
    for event in json.loads(trace.read_text()):
        kind, _, rest = event["name"].partition(" ")
        if event.get("ph") != "X":
            continue
        if kind in {"forward", "backward"}:
            step, _, stage = rest.partition(", stage ")
            steps.add(step)
            seconds.setdefault((kind, int(stage)), []).append(event["dur"] / 1e6)
        elif kind == "update":
            updates.append(event["dur"] / 1e6)
    total = sum(stage_bytes)
    return [
        StagePieces(
            median(seconds["forward", number]),
            median(seconds["backward", number]),
            sum(updates) / len(steps) * size / total,
            link_s * size / total,
        )
        for number, size in enumerate(stage_bytes)
    ]

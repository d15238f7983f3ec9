"""One timeline of all ranks: each writes its own, and the first joins them, with clocks aligned."""

from __future__ import annotations

import json
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import distributed

from netweave.files.output_files import write_file

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.training.parallel.world import World

ROUND_TRIPS = 20
"""Of the shortest one the middle is taken: the others waited for something."""


def trace_path(path: Path, rank: int) -> Path:
    """Return where a rank writes its own timeline; what a killed run leaves can be opened too."""
    return path if rank == 0 else path.with_name(f"{path.name}.rank{rank}")


def join_traces(world: World, path: Path) -> None:
    """Join the timelines of all ranks in the file of the first: one process each, in the order of ranks.

    Args:
        world: The ranks; all have written their timelines.
        path: The file of the whole.
    """
    own = trace_path(path, world.rank)
    offset_us = clock_offset_ns(world) / 1000
    events = [_moved(event, world, offset_us) for event in json.loads(own.read_text(encoding="utf-8"))]
    host = world.ranks[world.rank].host
    events.append(_named(world.rank, "process_name", {"name": f"rank {world.rank} on {host}"}))
    events.append(_named(world.rank, "process_sort_index", {"sort_index": world.rank}))
    texts = _gather(world, ",\n".join(map(json.dumps, events)))
    if world.is_first:
        write_file(path, "[\n" + ",\n".join(texts) + "\n]\n")
    else:
        own.unlink()


def clock_offset_ns(world: World) -> int:
    """Return what is added to this rank's clock to make it the first rank's; 0 on the same machine.

    Processes of one machine read one clock. For others, the first rank's time is asked for, and taken to be
    that of the middle of the shortest round trip.
    """
    group = world.group("objects")
    hosts = [rank.host for rank in world.ranks]
    offset_ns = 0
    for rank in range(1, world.size):
        if hosts[rank] == hosts[0] or world.rank not in {0, rank}:
            continue
        with world.watched("aligning clocks"):
            best_ns = None
            for _ in range(ROUND_TRIPS):
                clock = torch.zeros(1, dtype=torch.int64)
                if world.rank == 0:
                    distributed.recv(clock, rank, group=group)
                    clock[0] = perf_counter_ns()
                    distributed.send(clock, rank, group=group)
                    continue
                asked_ns = perf_counter_ns()
                distributed.send(clock, 0, group=group)
                distributed.recv(clock, 0, group=group)
                answered_ns = perf_counter_ns()
                if best_ns is None or answered_ns - asked_ns < best_ns:
                    best_ns = answered_ns - asked_ns
                    offset_ns = int(clock[0]) - (asked_ns + answered_ns) // 2
    return offset_ns


def _moved(event: dict[str, Any], world: World, offset_us: float) -> dict[str, Any]:
    moved = {**event, "pid": world.rank}
    if "ts" in event:
        moved["ts"] = event["ts"] + offset_us
    if "id" in event:
        moved["id"] = f"{world.rank}.{event['id']}"  # ids of asynchronous events are of all processes
    return moved


def _named(rank: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": rank, "name": name, "args": arguments}


def _gather(world: World, text: str) -> list[str]:
    """Return the texts of all ranks on the first, an empty list on the others."""
    group = world.group("objects")
    own = torch.from_numpy(np.frombuffer(text.encode(), np.uint8).copy())
    sizes = world.gather(len(own), "sizes of timelines")
    texts = [text] if world.is_first else []
    with world.watched("collecting timelines"):
        for rank in range(1, world.size):
            if world.rank == rank:
                distributed.send(own, 0, group=group)
            elif world.is_first:
                other = torch.empty(sizes[rank], dtype=torch.uint8)
                distributed.recv(other, rank, group=group)
                texts.append(other.numpy().tobytes().decode())
    return texts

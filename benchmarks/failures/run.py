"""Failures of training runs, many times: processes that are killed or told to end, and links that fail.

    python -m benchmarks failures SUBJECT [--of KIND] [--seconds 500] [--json benchmarks/failures/result.json]

Each call goes on for so many seconds, and adds what it has found to the file of results; see README.md.
``--of`` takes only runs of one kind, by a word that their rows say of them: ``worker``, ``torchrun``.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.failures import agents, clusters, kills, links, preemptions
from benchmarks.parallel.network import network
from benchmarks.record import Namespace, Record, option
from tests.mxnet import fit_killed
from tests.training.parallel import command

Result: TypeAlias = dict[str, Any]
Events: TypeAlias = list[dict[str, Any]]

MOST = 10
"""Failures of one run."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs that fail again and again, and whose end is that of a run that nobody disturbs.

    Attributes:
        shapes: The runs that take turns.
        about: What a row of the results says of a shape.
        events: What the failures are called in a row.
        whole: Makes a run that nobody disturbs; returns all arrays at its end.
        disturbed: Makes one that fails; returns the failures, what is wrong with how it went on after them,
            and why it did not end well.
        end: Returns all arrays at the end of such a run.
        counts: Counts the failures of all rows.
    """

    shapes: Sequence[Any]
    about: Callable[[Any], Result]
    events: str
    whole: Callable[[Path, Any], Result]
    disturbed: Callable[[Path, Any, random.Random], tuple[Events, list[str], str]]
    end: Callable[[Path, Any], Result]
    counts: Callable[[Events, list[Result]], Result]

    def of(self, word: str) -> Trial:
        """Return the trial with those of its shapes alone whose rows say a word.

        Raises:
            SystemExit: No shape's row does.
        """
        rows = {shape: " ".join(map(str, self.about(shape).values())).split() for shape in self.shapes}
        shapes = [shape for shape in self.shapes if not word or word in rows[shape]]
        if not shapes:
            known = sorted({one for row in rows.values() for one in row})
            raise SystemExit(f"--of {word}: no run is of this kind; the rows say {', '.join(known)}")
        return replace(self, shapes=shapes)

    def go_on(
        self, result: Result, folder: Path, is_on: Callable[[], bool], save: Callable[[], None]
    ) -> None:
        """Disturb runs, each time of the shape that has had fewest, and count what became of them."""
        runs: list[Result] = result.setdefault("runs", [])
        expected: dict[Any, Result] = {}
        while is_on():
            number = len(runs)
            shape = min(
                self.shapes, key=lambda one: sum(self.about(one).items() <= run.items() for run in runs)
            )
            if shape not in expected:
                expected[shape] = self.whole(folder / f"whole {number}", shape)
            place, began_s = folder / f"run {number}", time.monotonic()
            events, faults, failure = self.disturbed(place, shape, random.Random(number))
            if failure:
                faults.append(failure)
            elif not command.is_equal(self.end(place, shape), expected[shape]):
                faults.append("other parameters at the end")
            row = {**self.about(shape), "seconds": round(time.monotonic() - began_s), self.events: events}
            runs.append(row | {"faults": faults})
            result |= self.counts([event for run in runs for event in run[self.events]], runs)
            result["runs bit-equal"] = sum(not run["faults"] for run in runs)
            result["faults"] = sum(len(run["faults"]) for run in runs)
            save()


def kill_ranks(place: Path, variant: tuple[str, ...], draw: random.Random) -> tuple[Events, list[str], str]:
    """Kill ranks of a run, as ``Trial.disturbed``."""
    done, status, log = kills.killed_run(place, variant, draw, MOST)
    faults = [fault for kill in done for fault in kills.faults(kill)]
    return done, faults, f"status {status}: {log[-2000:]}" if status else ""


def preempt(place: Path, shape: tuple[str, ...], draw: random.Random) -> tuple[Events, list[str], str]:
    """Take the machine away from a run, as ``Trial.disturbed``."""
    done, status = preemptions.preempted_run(place, shape, draw, MOST)
    faults = [fault for one in done for fault in preemptions.faults(one)]
    return done, faults, f"status {status}" if status else ""


def kill_agents(place: Path, shape: tuple[int, str], draw: random.Random) -> tuple[Events, list[str], str]:
    """Kill workers or agents of torchrun, as ``Trial.disturbed``."""
    count, what = shape
    with network(agents.RATE) as nodes:
        placed = [nodes[rank % 2] for rank in range(count)]
        done, statuses, fault = agents.killed_run(place, placed, what, draw, MOST)
    if any(statuses) and not fault:
        fault = f"statuses {statuses}: {agents.log_of(place)[-2000:]}"
    return done, [], fault


def kill_clusters(
    place: Path, shape: tuple[str, str, str], draw: random.Random
) -> tuple[Events, list[str], str]:
    """Kill processes of a cluster, as ``Trial.disturbed``."""
    done, applied, fault = clusters.killed_run(place, shape, draw, MOST)
    sent = clusters.num_sent(place, shape)
    faults = [] if fault or applied in {None, sent} else [f"{applied} updates applied, {sent} sent"]
    return done, faults, fault


TRIALS = {
    "clusters": Trial(
        clusters.SHAPES,
        lambda shape: {"cluster": shape[0], "killed": shape[1], "processes": shape[2]},
        "kills",
        clusters.whole_run,
        kill_clusters,
        clusters.end,
        lambda done, runs: (
            {
                f"{kind}s killed": sum(len(run["kills"]) for run in runs if run["killed"] == kind)
                for kind in ("server", "worker", "launcher")
            }
            | {
                f"seconds until a {how} server was there": sorted(
                    kill["seconds"]
                    for run in runs
                    for kill in run["kills"]
                    if (run["killed"], run["processes"]) == ("server", how) and "seconds" in kill
                )
                for how in ("forked", "started")
            }
        ),
    ),
    "kills": Trial(
        kills.VARIANTS,
        lambda variant: {"exchange": " ".join(variant)},
        "kills",
        kills.whole_run,
        kill_ranks,
        lambda place, _: command.arrays(place, kills.STEPS),
        lambda done, _: {
            "kills": len(done),
            "in training": sum(kill["in"] == "training" for kill in done),
            "of ranks": [sum(kill["rank"] == rank for kill in done) for rank in range(kills.RANKS)],
            "steps redone at most": max((kill.get("redone", 0) for kill in done), default=0),
        },
    ),
    "agents": Trial(
        agents.SHAPES,
        lambda shape: {"agents": shape[0], "killed": shape[1]},
        "kills",
        lambda folder, shape: agents.whole_run(folder, shape[0]),
        kill_agents,
        lambda place, _: command.arrays(place, agents.STEPS),
        lambda done, runs: (
            {
                f"{kind}s killed": sum(len(run["kills"]) for run in runs if run["killed"] == kind)
                for kind in ("worker", "agent")
            }
            | {"in training": sum(kill["in"] == "training" for kill in done)}
        ),
    ),
    "preemptions": Trial(
        list(preemptions.SHAPES),
        lambda shape: {"of": " ".join(shape)},
        "preemptions",
        preemptions.whole_run,
        preempt,
        preemptions.end,
        lambda done, runs: {
            "preemptions": len(done),
            "of": {
                one: sum(len(run["preemptions"]) for run in runs if run["of"] == one)
                for one in dict.fromkeys(run["of"] for run in runs)
            },
            "seconds at most": max((one["seconds"] for one in done), default=0),
        },
    ),
}


def kill_fits(result: Result, folder: Path, is_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Kill ``Module.fit`` with dropout and operators that keep a state; each fit goes on until its end."""
    expected, score, duration = fit_killed.whole(folder / "whole")
    while is_on():
        number = result.get("runs", 0)
        place, draw = folder / f"run {number}", random.Random(number)
        done, same = fit_killed.killed(place, expected, score, duration, draw, most=MOST)
        result["runs"] = number + 1
        result["kills"] = result.get("kills", 0) + done
        result["faults"] = result.get("faults", 0) + (not same)
        save()


def fail_links(result: Result, folder: Path, is_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Take a link down for 5 s, and for good; train over 10 Mbit/s; kill who holds the store."""
    rounds = {
        "down for 5 s": lambda place: links.cut_link(place, 5.0, 1500),
        "down for good": lambda place: links.cut_link(place, 1000.0, 100_000),
        "10 Mbit/s": lambda place: links.narrow_link(place, "10mbit", 40),
        "store of a rank killed": links.lose_store_of_rank,
        "store of an agent killed": links.lose_store_of_agent,
    }
    for name, do in rounds.items():
        if name not in result and is_on():
            result[name] = do(folder / name)
            result["faults"] = sum(one["faults"] for one in result.values() if isinstance(one, dict))
            save()


def stop_workers(result: Result, folder: Path, is_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Stop a worker of a cluster for 10 s, once for each bound; damage checkpoints of servers."""
    rounds = {
        f"staleness {bound}": partial(clusters.stop_worker, updates=10_000, stopped_s=10.0, staleness=bound)
        for bound in (4, 0)
    } | {"damages": partial(clusters.damage_checkpoints, count=1000, draw=random.Random(0))}
    for name, do in rounds.items():
        if name not in result and is_on():
            result[name] = do(folder / name)
            save()


OTHERS: Mapping[str, Callable[[Result, Path, Callable[[], bool], Callable[[], None]], None]] = {
    "fits": kill_fits,
    "links": fail_links,
    "servers": stop_workers,
}

OPTIONS = (
    option("subject", choices=[*TRIALS, *OTHERS]),
    option("--of", default="", help="only runs whose rows say this word"),
    option("--seconds", default=500.0, help="no new round begins after so long"),
)


def main(options: Namespace, record: Record) -> None:
    """Do one subject for some time, and add to the results."""
    subject: Result = record.results.setdefault(options.subject, {})
    with tempfile.TemporaryDirectory() as folder:
        until_s = time.monotonic() + options.seconds
        trial = TRIALS.get(options.subject)
        go_on = trial.of(options.of).go_on if trial else OTHERS[options.subject]
        go_on(subject, Path(folder), lambda: time.monotonic() < until_s, record.save)
    print({key: value for key, value in subject.items() if not isinstance(value, list)})

"""Failures, many times: ``python -m benchmarks.failures.run SUBJECT [--seconds 500]``; see README.md.

Each call goes on for so many seconds, and adds what it has found to result.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import netweave
from benchmarks.failures import agents, damage, kills, leaks, preemptions, stops
from benchmarks.parallel.network import network
from tests.mxnet import fit_killed
from tests.training.parallel import command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Result: TypeAlias = "dict[str, Any]"

RESULT = Path(__file__).with_name("result.json")


def main() -> None:
    """Do one subject for some time, and add to the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--seconds", type=float, default=500.0, help="no new round begins after so long")
    parser.add_argument("--json", type=Path, default=RESULT, help="the file of results")
    options = parser.parse_args()
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    subject = results.setdefault(options.subject, {})

    def save() -> None:
        results["netweave"] = netweave.__version__
        options.json.write_text(json.dumps(results, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        until_s = time.monotonic() + options.seconds
        SUBJECTS[options.subject](subject, Path(folder), lambda: time.monotonic() < until_s, save)
    print({key: value for key, value in subject.items() if not isinstance(value, list)})


def do_kills(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Kill ranks of runs, one way of exchange after the other."""
    runs = result.setdefault("runs", [])
    expected: dict[tuple[str, ...], Any] = {}
    while go_on():
        number = len(runs)
        variant = kills.VARIANTS[number % len(kills.VARIANTS)]
        if variant not in expected:
            expected[variant] = kills.whole_run(folder / f"whole {number}", variant)
        place = folder / f"run {number}"
        began_s = time.monotonic()
        done, status, log = kills.killed_run(place, variant, random.Random(number), 10)
        faults = [fault for kill in done for fault in kills.faults(kill)]
        if status:
            faults.append(f"status {status}: {log[-2000:]}")
        elif not command.is_equal(command.arrays(place, kills.STEPS), expected[variant]):
            faults.append("other parameters at the end")
        runs.append(
            {"exchange": " ".join(variant), "seconds": round(time.monotonic() - began_s), "kills": done}
            | {"faults": faults}
        )
        every = [kill for run in runs for kill in run["kills"]]
        result |= {
            "kills": len(every),
            "in training": sum(kill["in"] == "training" for kill in every),
            "of ranks": [sum(kill["rank"] == rank for kill in every) for rank in range(kills.RANKS)],
            "steps redone at most": max((kill.get("redone", 0) for kill in every), default=0),
            "runs bit-equal": sum(not run["faults"] for run in runs),
            "faults": sum(len(run["faults"]) for run in runs),
        }
        save()


def do_preemptions(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Take the machine away from runs of each shape in turn: of the one that has had fewest."""
    runs = result.setdefault("runs", [])
    expected: dict[tuple[str, ...], Any] = {}
    while go_on():
        number = len(runs)
        had = Counter(run["of"] for run in runs)
        shape = min(preemptions.SHAPES, key=lambda one: had[" ".join(one)])
        if shape not in expected:
            expected[shape] = preemptions.whole_run(folder / f"whole {number}", shape)
        place = folder / f"run {number}"
        done, status = preemptions.preempted_run(place, shape, random.Random(number), 10)
        faults = [fault for one in done for fault in preemptions.faults(one)]
        if status:
            faults.append(f"status {status}")
        elif not command.is_equal(preemptions.end(place, shape), expected[shape]):
            faults.append("other parameters at the end")
        runs.append({"of": " ".join(shape), "preemptions": done, "faults": faults})
        every = [one for run in runs for one in run["preemptions"]]
        result |= {
            "preemptions": len(every),
            "of": {
                one: sum(len(run["preemptions"]) for run in runs if run["of"] == one)
                for one in dict.fromkeys(run["of"] for run in runs)
            },
            "seconds at most": max((one["seconds"] for one in every), default=0),
            "runs bit-equal": sum(not run["faults"] for run in runs),
            "faults": sum(len(run["faults"]) for run in runs),
        }
        save()


def do_agents(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Kill workers and agents of torchrun, in each shape in turn: of the one that has had fewest."""
    runs = result.setdefault("runs", [])
    expected: dict[int, Any] = {}
    while go_on():
        number = len(runs)
        had = Counter((run["agents"], run["killed"]) for run in runs)
        count, what = min(agents.SHAPES, key=lambda one: had[one])
        if count not in expected:
            expected[count] = agents.whole_run(folder / f"whole {count}", count)
        place = folder / f"run {number}"
        began_s = time.monotonic()
        with network(agents.RATE) as nodes:
            placed = [nodes[rank % 2] for rank in range(count)]
            done, statuses, fault = agents.killed_run(place, placed, what, random.Random(number), 10)
        faults = [fault] if fault else []
        if not fault and any(statuses):
            faults.append(f"statuses {statuses}: {agents.log_of(place)[-2000:]}")
        elif not fault and not command.is_equal(command.arrays(place, agents.STEPS), expected[count]):
            faults.append("other parameters at the end")
        runs.append(
            {"agents": count, "killed": what, "seconds": round(time.monotonic() - began_s), "kills": done}
            | {"faults": faults}
        )
        result |= {
            f"{kind}s killed": sum(len(run["kills"]) for run in runs if run["killed"] == kind)
            for kind in ("worker", "agent")
        }
        result |= {
            "in training": sum(kill["in"] == "training" for run in runs for kill in run["kills"]),
            "runs bit-equal": sum(not run["faults"] for run in runs),
            "faults": sum(len(run["faults"]) for run in runs),
        }
        save()


def do_fits(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Kill ``Module.fit`` with dropout and operators that keep a state; each fit goes on until its end."""
    expected, score, duration = fit_killed.whole(folder / "whole")
    while go_on():
        number = result.get("runs", 0)
        kills, same = fit_killed.killed(
            folder / f"run {number}", expected, score, duration, random.Random(number), most=10
        )
        result |= {
            "runs": number + 1,
            "kills": result.get("kills", 0) + kills,
            "faults": result.get("faults", 0) + (not same),
        }
        save()


def do_stops(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Stop a rank for 30 s, then slow one down."""
    rounds = {
        "rank 0 stopped": lambda place: stops.stop_rank(place, 0, 30.0),
        "rank 2 stopped": lambda place: stops.stop_rank(place, 2, 30.0),
        "rank 1 slow": lambda place: stops.slow_rank(place, 1, 60.0),
    }
    _do_once(rounds, result, folder, go_on, save)


def do_links(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Take a link down for 5 s, and for good; train over 10 Mbit/s."""
    rounds = {
        "down for 5 s": lambda place: stops.cut_link(place, 5.0, 1500),
        "down for good": lambda place: stops.cut_link(place, 1000.0, 100_000),
        "10 Mbit/s": lambda place: stops.narrow_link(place, "10mbit", 40),
    }
    _do_once(rounds, result, folder, go_on, save)


def _do_once(
    rounds: Mapping[str, Callable[[Path], Result]],
    result: Result,
    folder: Path,
    go_on: Callable[[], bool],
    save: Callable[[], None],
) -> None:
    """Do what an earlier call has not done."""
    for name, do in rounds.items():
        if name not in result and go_on():
            result[name] = do(folder / name)
            result["faults"] = sum(one["faults"] for one in result.values() if isinstance(one, dict))
            save()


def do_damage(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Damage files of a run's last snapshot, a thousand times in all."""
    damage.prepare(folder)
    faults: list[str] = result.setdefault("messages of faults", [])
    rounds = Counter(result.get("by kind", {}))
    draw = random.Random(rounds.total())
    os.chdir(folder)
    while go_on() and rounds.total() < 1000:
        what, fault = damage.damage_once(folder, draw)
        rounds[what] += 1
        faults += [f"{what}: {fault}"] if fault else []
    result |= damage.summary(rounds, faults)
    save()


def do_leaks(result: Result, folder: Path, go_on: Callable[[], bool], save: Callable[[], None]) -> None:
    """Start twenty runs in a row, and two at once."""
    starts = result.setdefault("starts", [])
    while go_on() and len(starts) < 20:
        number = len(starts)
        ending = leaks.ENDINGS[number % len(leaks.ENDINGS)]
        starts.append(leaks.start_and_end(folder / str(number), ending))
        result["faults"] = sum(bool(one["left"]) for one in starts)
        save()
    result["two at once"] = leaks.two_at_once(folder)
    result["faults"] += result["two at once"]["faults"]
    save()


SUBJECTS = {
    "kills": do_kills,
    "agents": do_agents,
    "preemptions": do_preemptions,
    "fits": do_fits,
    "stops": do_stops,
    "links": do_links,
    "damage": do_damage,
    "leaks": do_leaks,
}

if __name__ == "__main__":
    main()

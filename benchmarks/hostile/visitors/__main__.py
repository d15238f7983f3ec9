"""20 honest visitors of a workbench, alone, in a crowd, beside attackers, and while its parts are killed.

    python -m benchmarks hostile.visitors [--visitors 20] [--kills 50] [--json FILE]

Each visitor is a thread with an address of its own on the loopback interface that does what a browser does
(``user``): it uploads two nets, has them compared, follows the comparison and fetches the
result, a few times over. First they are alone; then in an ordinary crowd (``crowd``); then attackers
(``attackers``) do at the same time, from four other addresses, all that they can think of; then parts of the
workbench are killed as well (``kills``), while visitors try again as people do. Then 50 uploads at once fill
a quota, and the clock is put two days ahead to see what is left (``aftermath``). Told are the 95th centile of
all requests of the visitors, comparisons that did not end with the right verdict or whose result is gone, and
what is left. The attackers' own process runs at the lowest priority, since it shares the processors with the
server; a real attacker brings their own.

Attacks may make the requests of visitors at most twice as slow as the crowd makes them, and 95 % of them take
at most as long as a page may (``user``). Measured by a workbench that has nothing else to do,
any other visitors make requests several times as slow: that ratio is told, and says how busy the machine is,
not what an attack gains; it grows where the workbench alone becomes faster.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hostile.visitors.kills import Killer
from benchmarks.hostile.visitors.user import TARGET_SECONDS, User
from benchmarks.record import Namespace, Record, option
from tests.web.running import CSRF_TOKEN, Workbench

SETTINGS = """max_memory_mb = 1024
max_total_mb = 10
max_seconds = 60
uploads_per_minute = 1000
comparisons_per_minute = 1000
newcomers_per_minute = 240
"""
"""A quota that 50 uploads fill, and limits by the minute that do not hide what is behind them."""

MAX_RATIO = 2.0
"""Of the time that requests take beside attackers to that in an ordinary crowd."""

OTHERS = {"attacked": "attackers", "killed": "attackers", "crowded": "crowd"}
"""Programs that run beside the visitors, by phase."""

KILL_EVERY_S = 1.5
PATIENT_TRIES = 120
"""Times half a second: a workbench that is started again is away for some seconds."""

SETTLE_S = 15.0
QUOTA_BYTES = 10 << 20


class Visitor(User):
    """An honest visitor, who compares a few times, and for as long as parts are killed."""

    def __init__(
        self, port: int, times: dict[str, list[float]], *, rounds: int, within: float, killer: Killer
    ) -> None:
        super().__init__(port, times, within=within, stubborn=True)
        self.rounds, self.killer, self.tries = rounds, killer, PATIENT_TRIES
        self.started, self.verdicts, self.keys = 0, [], []

    def _work(self) -> None:
        while self.started < self.rounds or self.killer.is_alive():
            self.started += 1
            super()._work()
            self.verdicts.append(self.verdict)

    def _follow(self, kind: str, path: str) -> dict[str, str]:
        found = super()._follow(kind, path)
        if "/comparisons/" in path:
            self.keys.append(path)
        return found

    def has_results(self) -> bool:
        """Whether the results of all comparisons can be fetched."""
        try:
            results = [json.loads(self._ask("result", "GET", f"{key}/result")) for key in self.keys]
        finally:
            self.hang_up()
        return len(results) == self.started and all(found["verdict"] == "different" for found in results)


@dataclass(slots=True)
class Phase:
    """What became of one phase.

    Attributes:
        seconds: How long it took.
        requests: Requests of the visitors that were answered.
        p50_ms: Median time of these.
        p95_ms: Their 95th centile.
        longest_ms: The longest of them.
        comparisons: Comparisons that the visitors started.
        finished: Those that ended with the right verdict, and whose result is there afterwards.
        failures: What went wrong, in words.
        others: How often each attack was done, or each thing that the crowd does.
        kills: How often each part was killed.
    """

    seconds: float
    requests: int
    p50_ms: float
    p95_ms: float
    longest_ms: float
    comparisons: int
    finished: int
    failures: list[str] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)


def phase(
    bench: Workbench,
    *,
    visitors: int,
    rounds: int,
    within: float,
    others: str = "",
    others_s: float = 0,
    kills: int = 0,
) -> Phase:
    """Let visitors work, beside others and kills.

    Args:
        bench: The workbench.
        visitors: How many.
        rounds: Comparisons of each.
        within: Seconds in which they come.
        others: The program beside them: ``attackers``, ``crowd`` or none.
        others_s: It goes on for so long.
        kills: How many parts are killed.
    """
    times: dict[str, list[float]] = defaultdict(list)
    beside = None
    if others:
        command = [
            sys.executable,
            "-m",
            f"benchmarks.hostile.visitors.{others}",
            str(bench.port),
            str(others_s),
        ]
        beside = subprocess.Popen(command, stdout=subprocess.PIPE)
        time.sleep(5)  # they hold what they can before the first visitor comes
    killer = Killer(bench, kills=kills, every_s=KILL_EVERY_S)
    killer.start()
    people = [
        Visitor(bench.port, times, rounds=rounds, within=within, killer=killer) for _ in range(visitors)
    ]
    begun = time.perf_counter()
    for one in people:
        one.start()
    for one in people:
        one.join()
    seconds = time.perf_counter() - begun
    killer.join()
    done = json.loads(beside.communicate()[0]) if beside else {}
    finished, failures = 0, []
    for one in people:
        try:
            is_lost = bool(one.failure) or not one.has_results()
        except (AssertionError, OSError) as error:
            is_lost, one.failure = True, repr(error)
        if is_lost:
            failures.append(one.failure or f"results are gone: {one.keys}")
        finished += one.verdicts.count("different")
        failures += [verdict for verdict in one.verdicts if verdict != "different"]
    every = [value for taken in times.values() for value in taken]
    found = Phase(
        seconds=round(seconds, 1),
        requests=len(every),
        p50_ms=round(1000 * statistics.median(every), 1),
        p95_ms=round(1000 * statistics.quantiles(every, n=20)[-1], 1),
        longest_ms=round(1000 * max(every), 1),
        comparisons=sum(one.started for one in people),
        finished=finished,
        failures=failures[:10],
        others=done,
        kills=dict(killer.done),
    )
    print(found, file=sys.stderr, flush=True)
    return found


def fill_quota(bench: Workbench, *, uploads: int = 50, num_bytes: int = 1 << 20) -> dict[str, int]:
    """Upload many files at once of which some fit; return how many were kept, and their bytes."""
    user = User(bench.port, defaultdict(list), within=0, stubborn=False)
    user.token = CSRF_TOKEN.search(user._ask("page 1", "GET", "/").decode())[1]  # type: ignore[index]
    nets = [json.loads(user._ask("net", "POST", "/api/nets", b"{}"))["id"] for _ in range(uploads)]
    statuses: list[str] = []

    def put(net: str, size: int) -> None:
        one = User(bench.port, defaultdict(list), within=0, stubborn=False)
        one.cookies, one.token = user.cookies, user.token
        try:
            one._ask("upload", "PUT", f"/api/nets/{net}/files/part.bin", bytes(size))
            statuses.append("kept")
        except (AssertionError, OSError) as error:
            statuses.append(str(error))
        finally:
            one.hang_up()

    user.hang_up()
    threads = [threading.Thread(target=put, args=(net, num_bytes)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = statuses.count("kept")
    put(nets[0], num_bytes)  # replaces or is refused: either way no byte more
    put(nets[-1], 1)
    sizes = [
        path.stat().st_size
        for net in nets
        for path in (bench.data / "files" / "nets" / net).glob("*")
        if path.is_file()
    ]
    return {"uploads": uploads, "kept": kept, "bytes": sum(sizes), "quota": QUOTA_BYTES}


def aftermath(bench: Workbench, scratch: Path) -> dict[str, dict[str, int]]:
    """Return what a stopped workbench has left behind (``aftermath``)."""
    environment = bench.environment | {
        "NETWEAVE_DATA": str(bench.data),
        "DJANGO_SETTINGS_MODULE": "netweave.web.settings",
        "TMPDIR": str(scratch),
    }
    command = [sys.executable, "-m", "benchmarks.hostile.visitors.aftermath"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def run(options: Namespace) -> dict[str, object]:
    """Run all phases and return what became of them."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "tmp"
        scratch.mkdir()
        bench = Workbench(
            Path(folder) / "data", workers=2, settings=SETTINGS, environment={"TMPDIR": str(scratch)}
        )
        with bench:
            common = {"visitors": options.visitors, "rounds": options.rounds, "within": options.within}
            phases = {"alone": phase(bench, **common)}
            for name, kills in (("crowded", 0), ("attacked", 0), ("killed", options.kills)):
                beside = {"others": OTHERS[name], "others_s": options.seconds}
                phases[name] = phase(bench, **common, **beside, kills=kills)
            quota = fill_quota(bench)
            time.sleep(SETTLE_S)
        return {
            "visitors": options.visitors,
            "phases": {name: asdict(one) for name, one in phases.items()},
            "ratio": _ratio(phases, "crowded"),
            "ratio to alone": _ratio(phases, "alone"),
            "quota": quota,
            **aftermath(bench, scratch),
        }


def _ratio(phases: dict[str, Phase], name: str) -> float:
    """Return how much longer requests take beside attackers than in another phase."""
    return round(phases["attacked"].p95_ms / phases[name].p95_ms, 2)


def shortcomings(found: dict[str, Any]) -> list[str]:
    """Return what is not as it should be, in words: what was lost or left, the quota, slow requests."""
    phases: dict[str, dict[str, Any]] = found["phases"]
    attacked, most_ms = phases["attacked"]["p95_ms"], 1000 * TARGET_SECONDS
    checks = {
        **{
            f"{name}: {one['finished']} of {one['comparisons']} comparisons finished; {one['failures']}": (
                one["finished"] == one["comparisons"] and not one["failures"]
            )
            for name, one in phases.items()
        },
        f"beside attackers, requests take {found['ratio']} times as long as in a crowd, expected at most "
        f"{MAX_RATIO}": found["ratio"] <= MAX_RATIO,
        f"beside attackers, 95 % of requests take {attacked} ms, expected at most {most_ms:.0f}": (
            attacked <= most_ms
        ),
        f"the quota is not filled to the byte: {found['quota']}": (
            found["quota"]["bytes"] == found["quota"]["quota"]
        ),
        f"something is left: {found['left']}": not any(found["left"].values()),
    }
    return [words for words, holds in checks.items() if not holds]


OPTIONS = (
    option("--visitors", default=20),
    option("--rounds", default=2, help="Comparisons of each visitor in each phase."),
    option("--within", default=10.0, help="Seconds in which all of them come."),
    option("--seconds", default=75.0, help="How long attackers go on."),
    option("--kills", default=50),
)


def main(options: Namespace, record: Record) -> None:
    """Run it, print the figures, and write them."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = run(options)
    print(json.dumps(found, indent=1))
    record.save(found)
    short = shortcomings(found)
    for words in short:
        print(words, file=sys.stderr)
    raise SystemExit(1 if short else 0)

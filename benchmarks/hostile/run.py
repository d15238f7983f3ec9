"""A fuzzer over every reader of nets and every source of records.

Each call goes on for so many seconds, or until every reader has so many cases; with ``--resume`` it adds to
the results. ``--again`` reads the cases again that broke the pledge, and counts those as mended that keep it
now. ``--case READER:SEED:N`` reads one case and says what becomes of it. See README.md.
"""

from __future__ import annotations

import gc
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hostile import results
from benchmarks.hostile.fork import Process, end_batch, run_batch, start_batch, wait
from benchmarks.hostile.minimise import minimise
from benchmarks.hostile.readers import readers
from benchmarks.hostile.worker import Outcome, make_case
from benchmarks.record import Namespace, Record, option

if TYPE_CHECKING:
    from benchmarks.hostile.readers import Seed

FAILURES = Path(tempfile.gettempdir()) / "netweave-hostile"
MEMORY = Path("/dev/shm")

SLICE_SECONDS = 3.0
"""Processor time of one batch of a reader, before the next has its turn."""

SAVE_SECONDS = 60.0
NUM_WARM = 5
"""Seeds of a reader that are read before the processes are forked, so that not each of them imports."""

SOURCES = Path(results.__file__).parents[2] / "src" / "netweave"


OPTIONS = (
    option("--reader", action="append", help="only readers whose names begin so"),
    option("--seconds", default=500.0),
    option("--cases", type=int, default=1 << 40, help="stop at so many cases of each reader"),
    option("--processes", type=int, default=os.cpu_count() or 1, help="that read at the same time"),
    option("--seed", default=1),
    option("--resume", default=False, help="add to the results that are there"),
    option("--again", default=False, help="read the cases again that broke the pledge"),
    option("--failures", type=Path, default=FAILURES, help="where files that fail are kept"),
    option("--case", help="READER:SEED:N, to be read again"),
)


def main(options: Namespace, record: Record) -> None:
    """Do what the command line says."""
    options.reader = options.reader or [""]
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    if options.case:
        reader, seed, number = options.case.rsplit(":", 2)
        _read_again(reader, int(seed), int(number), options.failures)
        return
    is_new = not (options.again or options.resume)
    result = results.of_record({} if is_new else record.results, options.seed)
    if options.again:
        _mend(result)
    else:
        _fuzz(result, options, record)
    record.save(result.to_json())
    print(result.table())


def _fuzz(result: results.Results, options: Namespace, record: Record) -> None:
    """Read cases of all readers in turn, in several processes."""
    names = [name for name in readers() if any(name.startswith(part) for part in options.reader)]
    seeds = {name: readers()[name].make_seeds() for name in names}
    for name in names:
        _warm(seeds[name])
    gc.freeze()  # so that children that collect do not copy what they share
    source = source_version()
    until = time.monotonic() + options.seconds
    saved = time.monotonic()
    running: dict[int, tuple[str, Process]] = {}
    while True:
        busy = {name for name, _ in running.values()}
        waiting = [name for name in names if name not in busy and result.of(name).cases < options.cases]
        if waiting and len(running) < options.processes and time.monotonic() < until:
            name = min(waiting, key=lambda name: result.of(name).cases)
            counts = result.of(name)
            count = options.cases - counts.cases
            batch = start_batch(
                seeds[name], name, result.seed, counts.next, seconds=SLICE_SECONDS, count=count
            )
            running[batch.pid] = name, batch
            continue
        if not running:
            return
        done = wait([process for _, process in running.values()])
        name, _ = running.pop(done.pid)
        for number, outcome in end_batch(done, name):
            if result.add(name, number, outcome, source):
                _save_case(seeds[name], name, result.seed, number, options.failures)
        if time.monotonic() - saved > SAVE_SECONDS:
            record.save(result.to_json())
            saved = time.monotonic()


def _warm(seeds: list[Seed]) -> None:
    """Read some seeds here: what is imported late then is there in every process."""
    for seed in sorted(seeds, key=lambda seed: -seed.weight)[:NUM_WARM]:
        with tempfile.TemporaryDirectory() as folder:
            seed.write(Path(folder))
            os.chdir(folder)
            seed.read(Path(folder))
            os.chdir("/")


def source_version() -> str:
    """Return a name for Netweave's sources: git's hash of their folder, marked where files differ from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(SOURCES), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", ".")
    return git("rev-parse", "--short=12", "HEAD:./") + ("+changes" if changed else "")


def _mend(result: results.Results) -> None:
    """Read the open findings again."""
    source = source_version()
    seeds: dict[str, list[Seed]] = {}
    for finding in result.open_findings():
        name, seed, number = finding.place
        seeds.setdefault(name, readers()[name].make_seeds())
        ((_, now),) = run_batch(seeds[name], name, seed, number, 0.0, 1)
        if not now.faults:
            before = Outcome(finding.kind, finding.seconds, finding.num_bytes, finding.key)
            result.mend(finding, before, now, source)


def _save_case(seeds: list[Seed], name: str, seed: int, number: int, folder: Path) -> None:
    chosen, content = make_case(seeds, name, seed, number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{seed}-{number}-{seeds[chosen].damaged.replace('/', '_')}").write_bytes(content)


def _read_again(name: str, seed: int, number: int, folder: Path) -> None:
    seeds = readers()[name].make_seeds()
    ((_, outcome),) = run_batch(seeds, name, seed, number, 0.0, 1)
    print(f"{name}:{seed}:{number}: {outcome}")
    chosen, content = make_case(seeds, name, seed, number)
    if outcome.faults or outcome.kind == "unforeseen":
        small = minimise(seeds[chosen], content, outcome)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-{seed}-{number}.minimised"
        path.write_bytes(small)
        print(f"{len(content):,} bytes, minimised to {len(small):,}: {path}")

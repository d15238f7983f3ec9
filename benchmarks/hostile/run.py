"""Fuzz every reader and source: ``python -m benchmarks.hostile.run [--seconds 500] [--resume]``.

Each call goes on for so many seconds, shares them among the readers, and adds what it finds to result.json.
``--case READER:SEED:N`` reads one case again and says what becomes of it. See README.md.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hostile import results
from benchmarks.hostile.fork import run_batch
from benchmarks.hostile.minimise import minimise
from benchmarks.hostile.readers import readers
from benchmarks.hostile.worker import make_case

if TYPE_CHECKING:
    from benchmarks.hostile.readers import Seed

RESULT = Path(__file__).with_name("result.json")
FAILURES = Path(tempfile.gettempdir()) / "netweave-hostile"

SLICE_SECONDS = 1.0
"""Time of one batch of a reader, before the next has its turn."""


def main() -> None:
    """Do what the command line says."""
    options = _options()
    if options.case:
        reader, seed, number = options.case.rsplit(":", 2)
        _again(reader, int(seed), int(number), options.failures)
        return
    chosen = [row for name, row in readers().items() if any(name.startswith(part) for part in options.reader)]
    result = results.load(options.json, options.seed) if options.resume else results.new(options.seed)
    until = time.monotonic() + options.seconds
    seeds = {}
    for row in chosen:
        seeds[row.name] = row.make_seeds()
    gc.freeze()  # so that children that collect do not copy what they share
    while time.monotonic() < until:
        for row in chosen:
            counts = result.of(row.name)
            batch = run_batch(seeds[row.name], row.name, result.seed, counts.next, SLICE_SECONDS)
            for number, outcome in batch:
                if counts.add(number, outcome):
                    _save_case(seeds[row.name], row.name, result.seed, number, options.failures)
            if time.monotonic() > until:
                break
    result.save(options.json)
    print(result.table())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reader", action="append", help="only readers whose names begin so")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="add to the results that are there")
    parser.add_argument("--json", type=Path, default=RESULT, help="the file of results")
    parser.add_argument("--failures", type=Path, default=FAILURES, help="where files that fail are kept")
    parser.add_argument("--case", help="READER:SEED:N, to be read again")
    options = parser.parse_args()
    options.reader = options.reader or [""]
    return options


def _save_case(seeds: list[Seed], name: str, seed: int, number: int, folder: Path) -> None:
    chosen, content = make_case(seeds, name, seed, number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{seed}-{number}-{seeds[chosen].damaged.replace('/', '_')}").write_bytes(content)


def _again(name: str, seed: int, number: int, folder: Path) -> None:
    seeds = readers()[name].make_seeds()
    ((_, outcome),) = run_batch(seeds, name, seed, number, 0.0)
    print(f"{name}:{seed}:{number}: {outcome}")
    chosen, content = make_case(seeds, name, seed, number)
    if outcome.faults or outcome.kind == "unforeseen":
        small = minimise(seeds[chosen], content, outcome)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-{seed}-{number}.minimised"
        path.write_bytes(small)
        print(f"{len(content):,} bytes, minimised to {len(small):,}: {path}")


if __name__ == "__main__":
    main()

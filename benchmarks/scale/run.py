"""How long ``netweave compare`` takes on the large pair: the whole process, files and values included.

::

    python -m benchmarks.scale.run --runs 5

prints the median, the spread and the peak memory of several runs, and the times of the stages.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.scale.generate import write_pair

ROOT = Path(__file__).parents[2]


def time_compare(first: Path, second: Path) -> tuple[float, dict[str, float], int]:
    """Run one comparison; return its seconds, those of its stages, and its exit status.

    Raises:
        RuntimeError: The comparison came to no verdict.
    """
    command = [sys.executable, "-m", "netweave", "compare", str(first), str(second), "--json", "-"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"netweave compare ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return seconds, json.loads(done.stdout).get("seconds", {}), done.returncode


def main() -> None:
    """Write the pair, compare it several times and print the times."""
    parser = argparse.ArgumentParser(description="Time netweave compare on a large pair.")
    parser.add_argument("--blocks", type=int, default=360)
    parser.add_argument("--removed", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pair = write_pair(Path(folder), blocks=asked.blocks, removed=asked.removed)
        runs = [time_compare(*pair) for _ in range(asked.runs)]
    times = sorted(seconds for seconds, _, _ in runs)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{asked.blocks} blocks, {asked.removed} removed, exit status {runs[0][2]}: median "
        f"{statistics.median(times):.2f} s, {times[0]:.2f} to {times[-1]:.2f} s in {len(times)} runs, "
        f"peak {peak:.0f} MB, {os.cpu_count()} cores"
    )
    for stage in runs[0][1]:
        print(f"  {stage}: {statistics.median(found[stage] for _, found, _ in runs):.2f} s")


if __name__ == "__main__":
    main()

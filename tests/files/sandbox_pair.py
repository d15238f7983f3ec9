"""Runs a hostile and an honest program in the sandbox at the same time, and prints how it went.

A program of its own, so that a test can run it as root and as an ordinary user.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from netweave.errors import CodeError
from netweave.files.sandbox import Limits, run_guarded

HERE = Path(__file__).parent
SECONDS = 5.0


def main(request: dict) -> None:
    """Run both, and print their reports."""
    limits = Limits(seconds=60, memory_bytes=1 << 30, processes=60, file_bytes=64 << 20)
    request |= {"seconds": SECONDS, "limits": asdict(limits)}
    programs = {
        "attack": (HERE / "sandbox_attack.py", json.dumps(request)),
        "neighbour": (HERE / "sandbox_neighbour.py", str(SECONDS + 2)),
    }
    told: dict[str, object] = {}

    def run(name: str) -> None:
        program, argument = programs[name]
        try:
            with run_guarded(program, [argument], readable=[], place=name, limits=limits) as outcome:
                lines = outcome.report.strip().splitlines() or [""]
                told[name] = json.loads(lines[-1]) if outcome.status == 0 else outcome.report
        except CodeError as error:
            told[name] = str(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

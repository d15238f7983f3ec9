"""The program of an honest model beside a hostile one: it works for some seconds, and prints how it went."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path


def work() -> None:
    """Do once what models do: take memory, write a file, start a process."""
    held = bytearray(50 << 20)
    Path("file").write_bytes(held[: 1 << 20])
    assert len(Path("file").read_bytes()) == 1 << 20
    subprocess.run(["/bin/true"], check=True)


def main(seconds: float) -> None:
    """Work until time is out."""
    until, rounds, failures, longest = time.monotonic() + seconds, 0, [], 0.0
    while time.monotonic() < until:
        begun = time.monotonic()
        try:
            work()
        except (OSError, MemoryError, subprocess.CalledProcessError) as error:
            failures.append(repr(error))
        rounds, longest = rounds + 1, max(longest, time.monotonic() - begun)
        time.sleep(0.05)
    sys.stdout.write(json.dumps({"rounds": rounds, "failures": failures[:5], "longest_s": longest}) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]))

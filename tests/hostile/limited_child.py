"""Another process with limits, for what would stall, end or fill this one if it failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PRELUDE = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, ({num_bytes}, {num_bytes}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from netweave.errors import NetweaveError
import netweave, netweave.formats.onnx  # so that importing is not measured


def peak():
    # ru_maxrss would be that of the process that started this one, if that was larger
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def attempt(call, *arguments):
    before, start = peak(), time.process_time()
    try:
        call(*arguments)
        outcome = "read"
    except NetweaveError as error:
        outcome = f"{{type(error).__name__}}: {{error}}"
    return {{"outcome": outcome, "seconds": time.process_time() - start, "num_bytes": peak() - before}}


def report(**values):
    print(json.dumps(values), flush=True)

"""


def run_limited(
    code: str, *arguments: object, num_bytes: int = 4 << 30, timeout_s: float = 60
) -> list[dict[str, Any]]:
    """Run a program in a child process and return what it reports, one entry a call of ``report``.

    Args:
        code: The program; it has ``attempt(call, *arguments)``, which measures a call that may be refused.
        arguments: Its command line, in ``sys.argv[1:]``.
        num_bytes: Limit on its address space.
        timeout_s: Limit on its time; a child that takes longer is killed.

    Raises:
        AssertionError: It ended by a signal or an error of its own.
        subprocess.TimeoutExpired: It took too long.
    """
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE.format(num_bytes=num_bytes) + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}\n{done.stdout[-500:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]

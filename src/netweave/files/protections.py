"""Protections around code in files that work on this machine, found out by trying them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from netweave.errors import CodeError
from netweave.files.sandbox import Limits, has_guard, parent_folder, run_guarded
from netweave.files.seccomp import seccomp_filter

PROBE = Path(__file__).with_name("probe_child.py")

MEMORY_BYTES = 1 << 28
"""Memory that the probe is given, to see whether the limit holds."""


@dataclass(frozen=True, slots=True)
class Protection:
    """One protection.

    Attributes:
        name: What it keeps code from.
        is_on: Whether it holds here.
        detail: How, or what is missing and what to do.
    """

    name: str
    is_on: bool
    detail: str


def protections() -> tuple[Protection, ...]:
    """Return the protections around code in files, tried with a harmless program."""
    if not has_guard():
        missing = "bubblewrap (bwrap) is not installed: code is refused unless you trust it (--trust)"
        return (Protection("a guard around code", False, missing),)
    try:
        with tempfile.NamedTemporaryFile("w") as secret:
            secret.write("secret")
            secret.flush()
            limits = Limits(30.0, MEMORY_BYTES)
            with run_guarded(PROBE, [secret.name], readable=[], place="doctor", limits=limits) as outcome:
                report = json.loads(outcome.report.splitlines()[-1]) if outcome.status == 0 else {}
                reason = outcome.report.strip()[-200:]
    except CodeError as error:
        report, reason = {}, str(error)
    if not report:
        advice = f"bubblewrap does not run here ({reason}): code is refused"
        return (Protection("a guard around code", False, advice),)
    return (
        Protection("a guard around code", True, f"bubblewrap ({shutil.which('bwrap')})"),
        Protection("no network", not report["network"], "a network namespace with nothing in it"),
        Protection("no files of yours", not report["files"], "only the interpreter and the given files"),
        Protection("no other processes", not report["processes"], "a process namespace of its own"),
        Protection("not root", not report["root"], _user_detail()),
        Protection("no calls into the kernel that are not needed", not report["kernel"], _filter_detail()),
        Protection("memory is limited", not report["memory"], _limit_detail()),
        Protection(
            "memory shared between processes", not report["shared"], "no shared maps without a file, no memfd"
        ),
    )


def _user_detail() -> str:
    return "a user of its own for each child" if os.geteuid() == 0 else "a user namespace"


def _filter_detail() -> str:
    if seccomp_filter() is None:
        return f"there is no filter of system calls for {platform.machine()}"
    return f"a filter of system calls for {platform.machine()}"


def _limit_detail() -> str:
    together = "each process" if parent_folder() is None else "each process, and all together by cgroups"
    if shutil.which("prlimit") is None:
        return "prlimit is not installed: install util-linux"
    mebibytes = Limits().inherited().memory_bytes >> 20
    return f"{mebibytes:,} MiB here for {together}"

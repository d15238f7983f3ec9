"""The versions of Python and PyTorch that the tests pass with: ``python3 -m tools.version_matrix``.

It makes an environment for each Python of 3.11 to 3.14 that is here, and each PyTorch in ``TORCH`` that has a
build for CPUs here, installs Netweave with the extra ``test`` (and ``torch``), and runs the unmarked tests of
``FOLDERS``. With ``--cuda``, a PyTorch without such a build is tried with the build for CUDA, some 7 GB each.
A version that cannot be had is recorded as such. tools/release runs this.
"""

from __future__ import annotations

import datetime
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCH = ("", "2.9.1", "2.11.0", "2.13.0", "2.15.0")
"""None, the oldest of the range in pyproject.toml, two between, and the newest."""

FOLDERS = ("tests/graph", "tests/formats/onnx", "tests/formats/pytorch")

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "benchmarks" / "versions" / "result.json"
PAGE = ROOT / "docs" / "versions.md"


def main() -> int:
    """Try all pairs, write the record and its page, and return 1 if tests of one of them failed."""
    rows = [row for python in PYTHONS for row in rows_of(python, cuda="--cuda" in sys.argv[1:])]
    record = {
        "date": datetime.date.today().isoformat(),
        "system": f"{platform.system()} on {platform.machine()}",
        "rows": rows,
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(record))
    return int(any(row["outcome"] == "failed" for row in rows))


def rows_of(python: str, *, cuda: bool = False) -> list[dict[str, str]]:
    """Return the rows of a version of Python."""
    program = shutil.which(f"python{python}")
    if program is None or subprocess.run([program, "-c", ""], check=False, capture_output=True).returncode:
        return [row(python, "", "not tried", "this Python is not on the machine")]
    rows = []
    for torch in TORCH:
        print(f"Python {python}, torch {torch or 'none'} ...", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_tried(program, python, torch, Path(folder), cuda=cuda))
        print(f"  {rows[-1]['outcome']}: {rows[-1]['details']}", flush=True)
    return rows


def row(python: str, torch: str, outcome: str, details: str) -> dict[str, str]:
    """Return a row of the record."""
    return {"python": python, "torch": torch, "outcome": outcome, "details": details}


def _tried(program: str, python: str, torch: str, folder: Path, *, cuda: bool) -> dict[str, str]:
    subprocess.run([program, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    pip.append("--disable-pip-version-check")
    has_cuda = False
    if torch:
        versions = _versions(pip)
        build = cpu_build(torch, versions)
        has_cuda = cuda and not build and torch in versions
        if has_cuda:
            build = torch
        if not build:
            return row(python, torch, "not tried", "no build for CPUs is on the index of this machine")
        pip.append(f"torch=={build}")
    done = _run([*pip, "--editable", f".[test{',torch' if torch else ''}]"])
    if done.returncode:
        return row(python, torch, "failed", f"cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    fast = "not (slow or exhaustive or oracle or gpu or multi or browser)"
    done = _run([str(folder / "bin" / "python"), "-m", "pytest", "-q", "-n", "2", "-m", fast, *FOLDERS])
    last = re.sub(r" in [\d.]+s.*", "", done.stdout.strip().splitlines()[-1].strip("= "))
    if has_cuda:
        last += "; the build for CUDA, on the CPU"
    return row(python, torch, "failed" if done.returncode else "passed", last)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def _versions(pip: list[str]) -> list[str]:
    command = [*pip[: pip.index("install")], "index", "versions", "torch"]
    listed = re.search(r"Available versions: (.*)", _run(command).stdout)
    return listed[1].split(", ") if listed else []


def cpu_build(torch: str, versions: list[str], system: str = sys.platform) -> str:
    """Return the version to ask for so that a build for CPUs is installed; empty if there is none.

    For Linux, a build without ``+cpu`` has CUDA, several GB of it.

    >>> cpu_build("2.13.0", ["2.15.0", "2.13.0+cpu", "2.13.0"], "linux")
    '2.13.0+cpu'
    >>> cpu_build("2.15.0", ["2.15.0", "2.13.0+cpu", "2.13.0"], "linux")
    ''
    """
    wanted = f"{torch}+cpu" if system == "linux" else torch
    return wanted if wanted in versions else ""


def page(record: dict[str, Any]) -> str:
    """Return the record as a page."""
    folders = ", ".join(f"`{folder}`" for folder in FOLDERS)
    lines = [
        "# Versions of Python and PyTorch",
        "",
        f"Written by `python3 -m tools.version_matrix` on {record['date']}, on {record['system']}.",
        f"`tools/release` runs it before every release. It runs the tests of {folders}",
        "that take less than a second. *Not tried* is what this machine cannot get: it is not known to work.",
        *([record["remark"]] if "remark" in record else []),
        "",
        "| Python | PyTorch | outcome | details |",
        "|---|---|---|---|",
    ]
    for one in record["rows"]:
        torch = one["torch"] or ("any" if one["outcome"] == "not tried" else "none")
        lines.append(f"| {one['python']} | {torch} | {one['outcome']} | {one['details']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

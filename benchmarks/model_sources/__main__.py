"""Load PyTorch model sources of public repositories, each with one command and no editing.

    python -m benchmarks model_sources FOLDER [--run NAME]

``README.md`` says how they were chosen. ``sources.json`` holds repositories, commits and commands, no code.
``FOLDER`` holds the repositories at these commits as ``OWNER+NAME``; what is not there is left out.
A run that was stopped is resumed under its name.
torchvision, timm, einops and transformers are installed, as they are for most people who use such code.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.record import Namespace, Record, option

FOLDER = Path(__file__).parent
LIMIT_S = 400
MAX_ERROR = 400
"""Between two of these stands the table of the README."""


OPTIONS = (
    option("folder", type=Path, help="where the repositories are"),
    option("--only", nargs="*", default=[], help="architectures; the others' rows stay"),
    option("--run", default="", help="name of the run; rows that it has measured stay"),
)


def main(options: Namespace, record: Record) -> None:
    """Load all and write the result and the README's table."""
    sources: list[dict[str, str]] = json.loads((FOLDER / "sources.json").read_text())
    rows: dict[str, Any] = record.results.get("sources", {})
    for source in sources:
        name = source["architecture"]
        is_measured = bool(options.run) and rows.get(name, {}).get("run") == options.run
        is_asked = (not options.only or name in options.only) and not is_measured
        if is_asked and folder_of(source, options.folder).is_dir():
            rows[name] = row(source, options.folder) | {"run": options.run}
            print(name, rows[name]["verdict"], rows[name].get("error", ""), flush=True)
            write(sources, rows, record)  # a run that is stopped is resumed where it was
    write(sources, rows, record)


def write(sources: list[dict[str, str]], rows: dict[str, Any], record: Record) -> None:
    """Write the result in the order of the sources."""
    ordered = {name: rows[name] for source in sources if (name := source["architecture"]) in rows}
    loading = sum(row["verdict"] == "loads" for row in ordered.values())
    record.save({"loads": loading, "of": len(ordered), "sources": ordered})


def folder_of(source: dict[str, str], folder: Path) -> Path:
    """Return where a repository lies."""
    return folder / source["repository"].replace("/", "+")


def row(source: dict[str, str], folder: Path) -> dict[str, str]:
    """Load one source and return its row."""
    words = [
        sys.executable,
        "-m",
        "netweave",
        "inspect",
        source["net"],
        *shlex.split(source.get("options", "")),
    ]
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(FOLDER.parents[1] / "src")}
    told = {"repository": source["repository"], "commit": source["commit"]}
    try:
        ran = subprocess.run(
            words,
            cwd=folder_of(source, folder),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return told | {"verdict": "refused", "error": f"took more than {LIMIT_S} s"}
    if not ran.returncode:
        return told | {"verdict": "loads"}
    error = (ran.stderr.strip().splitlines() or ["no message"])[-1].removeprefix("netweave: ")
    error = re.sub(r"/\S*/(site-packages|netweave-\w+/child)/", "", error)  # folders of this machine
    return told | {"verdict": "refused", "error": error[:MAX_ERROR]}

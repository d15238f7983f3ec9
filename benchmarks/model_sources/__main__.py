"""Load PyTorch model sources of public repositories, each with one command and no editing.

    python -m benchmarks.model_sources FOLDER

The rule: for each architecture of a list that was written beforehand, the first repository of a code index,
by the number of stored files, whose name begins with ``ARCHITECTURE-pytorch``; in it the class or function
that is named after the architecture, with the arguments that its signature asks for. ``sources.json`` holds
repositories, commits and commands, and no code. ``FOLDER`` holds the repositories at these commits as
``OWNER+NAME``; what is not there is left out. torchvision, timm, einops and transformers are installed, as
they are for most people who use such code.

``result.json`` says for each whether it loads, and the error if it does not. It has 33 of the 44 so far,
written down from single runs of ``netweave inspect`` while the reader still changed: run this again before
citing it. The command for icnet was chosen after its first one had failed on a download.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LIMIT_S = 400


def main() -> None:
    """Load all and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the repositories are")
    parser.add_argument("--only", nargs="*", default=[], help="architectures; the others' rows stay")
    arguments = parser.parse_args()
    sources: list[dict[str, str]] = json.loads((FOLDER / "sources.json").read_text())
    result = FOLDER / "result.json"
    rows: dict[str, Any] = json.loads(result.read_text())["sources"] if result.exists() else {}
    for source in sources:
        name = source["architecture"]
        if (not arguments.only or name in arguments.only) and folder_of(source, arguments.folder).is_dir():
            rows[name] = row(source, arguments.folder)
            print(name, rows[name]["verdict"], rows[name].get("error", ""), flush=True)
    rows = {
        source["architecture"]: rows[source["architecture"]]
        for source in sources
        if source["architecture"] in rows
    }
    loading = sum(found["verdict"] == "loads" for found in rows.values())
    table = {"loads": loading, "of": len(rows), "sources": rows}
    result.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{loading} of {len(rows)} load")


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
    ran = subprocess.run(
        words,
        cwd=folder_of(source, folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        check=False,
    )
    told = {"repository": source["repository"], "verdict": "loads" if ran.returncode == 0 else "refused"}
    if ran.returncode:
        told["error"] = (ran.stderr.strip().splitlines() or ["no message"])[-1][:300]
    return told


if __name__ == "__main__":
    main()

"""Compare originals with other people's ports, and count what is found of the true differences.

    python -m benchmarks ports CHECKOUTS --tensorflow PYTHON --mxnet PYTHON

``CHECKOUTS`` holds the repositories at the commits of ``pairs.json`` as ``OWNER+NAME``; a pair of which one
is not there is left out. What is prepared and the copies that fixes change are kept in ``build/ports``.
``--state NAME`` writes the figures under that name in the file of ``--json``, beside those of other states.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.ports.pairs import Pair, load_pairs
from benchmarks.ports.prepare import PrepareError, prepare
from benchmarks.ports.score import score
from benchmarks.record import Namespace, Record, option

OPTIONS = (
    option("checkouts", type=Path, help="where the repositories are"),
    option("--tensorflow", help="an interpreter with TensorFlow, Keras 3 and tf_keras"),
    option("--mxnet", help="an interpreter with MXNet"),
    option("--folder", default=Path("build/ports"), help="what is kept between runs"),
    option("--only", default="", help="a pattern of names; the other pairs' rows stay"),
    option("--state", default="now", help="name of this state of the code"),
    option("--limit", type=float, default=600, help="seconds for each pair"),
)


def main(options: Namespace, record: Record) -> None:
    """Compare all pairs, or some, and write down what was found."""
    pythons = {"tensorflow": options.tensorflow, "mxnet": options.mxnet}
    for pair in load_pairs():
        if not re.search(options.only, pair.name):
            continue
        if not all(net.folder(options.checkouts).is_dir() for net in (pair.original, pair.port)):
            print(f"{pair.name}: not checked out", flush=True)
            continue
        row = compared(pair, options, pythons)
        add_row(record.results, options.state, pair.name, row)
        record.save()
        counts = {name: value for name, value in row["score"].items() if value and name != "wrong"}
        print(pair.name, row["verdict"], counts, row.get("error", ""), flush=True)


def compared(pair: Pair, arguments: Namespace, pythons: dict[str, str | None]) -> dict[str, Any]:
    """Return the row of one pair: the verdict, the counts, and the steps to equal."""
    build = (arguments.folder / pair.name / "build").resolve()
    build.mkdir(parents=True, exist_ok=True)
    interpreters = {name: python for name, python in pythons.items() if python}
    try:
        prepare(pair, arguments.checkouts, build, interpreters)
    except (PrepareError, subprocess.TimeoutExpired) as error:
        return row_of(pair, [{"error": f"could not be prepared: {error}"}])
    settings = settings_of(pair, arguments, build)
    place = build.parent
    (place / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (place / "steps.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.ports.steps", place / "settings.json", place / "steps.json"]
    problem = ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit, check=False)
        if done.returncode:
            problem = (done.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired:
        problem = f"not finished after {arguments.limit:g} s"
    steps = json.loads((place / "steps.json").read_text())["steps"] if (place / "steps.json").exists() else []
    steps = steps or [{"error": problem}]
    for step in (step for step in steps if "error" in step):
        for folder in (arguments.checkouts, arguments.folder):  # where they lie on this machine is no result
            step["error"] = step["error"].replace(f"{folder}/", "").replace(f"{folder.resolve()}/", "")
    return row_of(pair, steps)


def settings_of(pair: Pair, arguments: Namespace, build: Path) -> dict[str, Any]:
    """Return what the process that compares is told; the port is a fresh copy, which fixes may change."""
    original, port = (net.folder(arguments.checkouts).resolve() for net in (pair.original, pair.port))
    copy = build.parent / "port"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(port, copy, symlinks=True)
    shapes, options = {}, {}
    words = iter(shlex.split(pair.options.format(port=copy)))
    for word in words:
        if word == "--input-shape":
            name, _, sizes = next(words).partition("=")
            shapes[name] = [int(size) for size in sizes.split("x")]
        elif word == "--trust":
            options["trust"] = True
        else:
            options[word.removeprefix("--").replace("-", "_")] = next(words)
    return {
        "a": _named(pair.original.net, original, build),
        "b": _named(pair.port.net, copy, build),
        "input_shapes": shapes,
        "options": options,
        "copy": str(copy),
        "mendable": not pair.saved_port,
    }


def _named(net: str, folder: Path, build: Path) -> str:
    """Return how Netweave is given a net: each file with its folder."""
    files = net.split(",", 1) if net.endswith((".caffemodel", ".pt")) else [net]
    return ",".join(f.format(build=build) if f.startswith("{") else f"{folder}/{f}" for f in files)


def row_of(pair: Pair, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept of a pair."""
    first, last = steps[0], steps[-1]
    row: dict[str, Any] = {
        "verdict": first.get("verdict", "not compared"),
        "score": dataclasses.asdict(score(pair, steps)),
        "seconds": first.get("seconds", 0),
        "steps": len(steps) - 1,
        "equal_at_last": last.get("exit_status") in {0, 4},
    }
    row["score"]["wrong"] = row["score"]["wrong"][:20]
    if "error" in first:
        row["error"] = first["error"]
    if "error" in last and len(steps) > 1:
        row["error_after_fix"] = last["error"]
    return row


def add_row(table: dict[str, Any], state: str, name: str, row: dict[str, Any]) -> None:
    """Add one row of a state of the code, in the order of the pairs; the others stay."""
    rows = table.setdefault(state, {}) | {name: row}
    table[state] = {pair.name: rows[pair.name] for pair in load_pairs() if pair.name in rows}

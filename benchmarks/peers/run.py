"""Netweave, Polygraphy, onnx-array-api and diffonnx on the same pairs of ONNX files, in one run.

::

    python -m benchmarks peers --peers PYTHON --corpus CORPUS --json benchmarks/peers/result.json

Of equal pairs it is counted who says so; of effective faults, who says that the two differ, who points first
at the node that was changed (or at the one that stands for it), and who gives the right cause, which only
Netweave tries to. A net that does not run any more is found by a tool that ends with an error, too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import netweave
from benchmarks.peers.pairs import write_pairs
from benchmarks.record import Namespace, Record, option
from netweave.errors import NetweaveError

ROOT = Path(__file__).parents[2]
NETWEAVE = "Netweave"
PEERS = ("Polygraphy", "onnx-array-api", "diffonnx")


def ask_netweave(row: dict[str, Any]) -> dict[str, Any]:
    """Return what Netweave says of a pair."""
    start = time.perf_counter()
    try:
        found = netweave.compare(row["a"], row["b"])
    except NetweaveError as error:
        return {"says": "error", "where": str(error)[:200], "seconds": time.perf_counter() - start}
    seconds = time.perf_counter() - start
    says = {0: "equal", 1: "different"}.get(found.exit_status, "undecided")
    findings = [finding for finding in found.findings if not finding.latent]
    first = findings[0] if findings and says == "different" else None
    return {
        "says": says,
        "where": (first.layer_b or first.layer_a) if first else "",
        "why": (first.mismatch or "") if first else "",
        "seconds": seconds,
    }


def score(rows: list[dict[str, Any]], answers: list[dict[str, Any]], tool: str) -> dict[str, Any]:
    """Return the counts of one tool."""
    counts = dict.fromkeys(("equal_pairs", "equal", "false_alarms", "errors_on_equal", "faults", "found"), 0)
    counts |= dict.fromkeys(("located", "explained"), 0)
    for row, answer in zip(rows, answers, strict=True):
        says = answer[tool]["says"]
        if "layer" not in row:
            counts["equal_pairs"] += 1
            counts["equal"] += says == "equal"
            counts["false_alarms"] += says == "different"
            counts["errors_on_equal"] += says in {"error", "undecided"}
        elif answer["effect"] != "none":
            found = says == "different" or (says == "error" and answer["effect"] == "does not run")
            located = says == "different" and answer[tool]["where"] in {row["layer"], row["layer_a"]}
            counts["faults"] += 1
            counts["found"] += found
            counts["located"] += located
            counts["explained"] += bool(
                set(answer[tool].get("why", "").split(" + ")) & set(row["mismatches"])
            )
    times = [answer[tool]["seconds"] for answer in answers]
    seconds = {"median": statistics.median(times), "most": max(times)}
    return counts | {"seconds": {name: round(value, 3) for name, value in seconds.items()}}


OPTIONS = (
    option("--peers", required=True, help="a Python that has the three of them"),
    option("--corpus", type=Path, help="the corpus, for the nets that people ported"),
)


def main(options: Namespace, record: Record) -> None:
    """Write the pairs, ask everybody, and print and write the counts."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = write_pairs(folder, options.corpus)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [options.peers, "-m", "benchmarks.peers.tools", str(folder)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        answers = json.loads((folder / "answers.json").read_text())
        netweave.compare(rows[0]["a"], rows[0]["b"])  # what is loaded once, as for the peers
        for row, answer in zip(rows, answers, strict=True):
            answer[NETWEAVE] = ask_netweave(row)
        for row in rows:
            for key in ("a", "b", "right"):
                row[key] = str(Path(row[key]).relative_to(folder)) if key in row else None
    result = {
        "tools": {tool: score(rows, answers, tool) for tool in (NETWEAVE, *PEERS)},
        "pairs": [row | answer for row, answer in zip(rows, answers, strict=True)],
    }
    for tool, counts in result["tools"].items():
        print(tool, counts)
    record.save(result)

"""Compares one pair, applies the fixes that are proposed, and compares again, until the nets are equal.

    python -m benchmarks.ports.steps SETTINGS.json RESULT.json

It runs in a process of its own, for a time limit and for the memory. The settings are the two nets, the
reading options, and the folder that a fix may change: a copy of the port.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netweave
from netweave.api import mend
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from netweave.comparison import Comparison, Finding

MOST_STEPS = 6


def main() -> None:
    """Compare, and write down what was found at each step."""
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    target = Path(sys.argv[2])
    result: dict[str, Any] = {"steps": []}
    while len(result["steps"]) <= MOST_STEPS:
        step, goes_on = one_step(settings)
        result["steps"].append(step)
        target.write_text(json.dumps(result), encoding="utf-8")
        if not goes_on:
            return


def one_step(settings: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return what one comparison found, and whether fixes were applied, so that another one makes sense."""
    began = time.monotonic()
    shapes = {name: tuple(sizes) for name, sizes in settings["input_shapes"].items()}
    try:
        found = netweave.compare(settings["a"], settings["b"], input_shapes=shapes, **settings["options"])
    except NetweaveError as error:
        return {"error": str(error), "seconds": round(time.monotonic() - began, 1)}, False
    step = {
        "verdict": found.verdict.value,
        "sentence": found.sentence,
        "exit_status": found.exit_status,
        "seconds": round(time.monotonic() - began, 1),
        "notes": list(found.notes),
        "statuses": _statuses(found),
        "findings": [_finding(finding) for finding in found.findings],
    }
    if found.same_structure or not settings["mendable"]:
        return step, False
    applied = _apply(found, Path(settings["copy"]))
    step["applied"] = [_finding(finding) for finding in applied]
    return step, bool(applied)


def _apply(found: Comparison, copy: Path) -> tuple[Finding, ...]:
    """Write the mended texts, if they are all of the copy; return the findings that were applied."""
    mended = mend(found)
    if not mended.after or any(copy not in Path(file).resolve().parents for file in mended.after):
        return ()
    for file, text in mended.after.items():
        Path(file).write_text(text, encoding="utf-8")
    return mended.applied


def _statuses(found: Comparison) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in found.groups:
        counts[group.status.value] = counts.get(group.status.value, 0) + 1
    return counts


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "mismatch": finding.mismatch,
        "layer_a": finding.layer_a,
        "layer_b": finding.layer_b,
        "place_b": Path(finding.place_b).name,
        "cause": finding.cause,
        "fix": finding.fix,
        "edits": len(finding.edits),
        "latent": finding.latent,
        "error_fixed": finding.error_fixed,
    }


if __name__ == "__main__":
    main()

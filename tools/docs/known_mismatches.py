"""The page of known mismatches, from the table of keys and what was measured on planted faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from netweave.comparison.explain.known_mismatches.keys import MISMATCHES

RESULT = Path(__file__).parents[2] / "benchmarks" / "faults" / "result.json"

INTRODUCTION = """\
# Known mismatches

Generated from `src/netweave/comparison/explain/known_mismatches/keys.py` and `benchmarks/faults/result.json`
(`python -m tools.docs`). A known mismatch is a way in which a port often differs from its net. Netweave tries
each as a change of the second net on the first one's real values, and names it only if the layer then agrees.

"Named" is the number of comparisons with planted faults (`benchmarks/faults`) in which the mismatch was named
correctly. "Effect" is the median of the largest change of an output there, relative to its rms, as computed
by other programs. Rows without numbers have no fault of their own in that benchmark. See also
[how to add one](how-to/add-a-known-mismatch.md)."""


def page() -> str:
    """Return the page."""
    measured = _measured(json.loads(RESULT.read_text()))
    lines = ["| mismatch | what it is | named | effect |", "| --- | --- | --- | --- |"]
    for key, text in MISMATCHES.items():
        count, effect = measured.get(key, ("", ""))
        lines.append(f"| `{key}` | {text} | {count} | {effect} |")
    return "\n\n".join([INTRODUCTION, "\n".join(lines)]) + "\n"


def _measured(result: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return how often a mismatch was rightly named, and its effect, by key; of several each counts."""
    found: dict[str, tuple[int, str]] = {}
    for keys, row in result["mismatches"].items():
        effect = "other size" if row["effect"] is None else f"{row['effect']:.2g}"
        for key in keys.split(" + "):
            count, other = found.get(key, (0, effect))
            found[key] = (count + row["named"], effect if keys == key else other)
    return {key: (str(count), effect) for key, (count, effect) in found.items()}

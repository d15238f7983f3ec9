"""Rows of results: what a comparison says of a right port or of a mistake, and whether it is right."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from netweave.comparison.result.comparison import EQUAL_VERDICTS
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from benchmarks.record import Record
    from netweave.api import Comparison

Row = dict[str, Any]

WRONG_CASE = 1e-4
"""A right port is within this error of the original, relative to the rms; a wrong one is not."""

SCORED = ("found", "place", "named", "fix")
"""What is judged of a planted mistake."""


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference of two outputs, relative to the rms of the first."""
    return float((a - b).abs().max() / a.square().mean().sqrt())


def compared(row: Row, compare: Callable[[], Comparison]) -> Comparison | None:
    """Add to a row what a comparison says and the seconds it takes; return None where it ends in an error."""
    start = time.perf_counter()
    try:
        comparison = compare()
    except Exception as error:  # noqa: BLE001 - any error counts
        kind = "error" if isinstance(error, NetweaveError) else "raw error"
        row |= {"verdict": kind, "said": f"{type(error).__name__}: {error}"[:300]}
        return None
    row["s"] = round(time.perf_counter() - start, 1)
    row |= {"verdict": comparison.verdict.value, "said": comparison.sentence}
    row["findings"] = len(comparison.findings)
    return comparison


def is_same(row: Row) -> bool:
    """Return whether a row's verdict says that the nets are the same."""
    return row.get("verdict") in {verdict.value for verdict in EQUAL_VERDICTS}


def judge(row: Row, found: Comparison, place: str, words: str, named: Callable[[str], str] = str) -> None:
    """Add to the row of a mistake whether it is found, and the first finding is right.

    Args:
        row: The row.
        found: The comparison.
        place: A pattern of the name of A's layer, or B's.
        words: A pattern of the cause.
        named: Returns the name of a layer of B as the pattern knows it.
    """
    shown = [finding for finding in found.findings if not finding.latent] or list(found.findings)
    row["first"] = [f"{x.layer_a} | {x.layer_b} | {x.cause} | {x.fix} | {x.place_b}" for x in shown[:3]]
    row["found"] = found.verdict is Verdict.DIFFERENT or (found.equal and bool(shown))
    for first in shown[:1]:
        layers = (first.layer_a, named(first.layer_b))
        row["place"] = any(re.search(place, layer) for layer in layers)
        row["named"] = re.search(words, first.cause) is not None
        row["fix"] = bool(first.fix) and first.error_fixed is not None


def run_cases(cases: Mapping[str, Callable[[], Row]], record: Record) -> list[Row]:
    """Return the rows of cases by name; those that the file of results holds are not run again."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[Row] = record.results.setdefault("rows", [])
    done = {row["case"] for row in rows}
    for name, run in cases.items():
        if name not in done:
            rows.append({"case": name} | run())
            print(json.dumps(rows[-1]), flush=True)
            record.save()
    return [row for row in rows if row["case"] in cases]


def counts(rows: Iterable[Row], *, is_mistake: bool) -> dict[str, int]:
    """Return the counts of right ports, or of mistakes."""
    own = [row for row in rows if row["is_mistake"] == is_mistake]
    if is_mistake:
        judged = {key: sum(bool(row.get(key)) for row in own) for key in SCORED}
        both = sum(bool(row.get("place") and row.get("named")) for row in own)
        return {"planted": len(own), **judged, "place and named": both}
    same = [row for row in own if is_same(row)]
    clean = sum(not row["findings"] for row in same)
    findings = sum(row.get("findings", 0) for row in own)
    return {"right": len(own), "equal": len(same), "without a finding": clean, "findings": findings}

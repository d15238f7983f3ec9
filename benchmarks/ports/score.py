"""Counts what Netweave found of the differences that were written down, and what it said besides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.ports.pairs import Difference, Pair

Row = dict[str, Any]


@dataclass(slots=True)
class Score:
    """Counts over the layers at which two nets differ; those without an effect are counted apart.

    Attributes:
        true: Layers at which the nets truly differ.
        found: Those of them that some finding is about.
        explained: Those whose finding names the right mismatch.
        fixed: Those whose proposed fix was applied, and that are not found again in the next comparison.
        applicable: Those whose fix changes a text; a file that a framework saved is none.
        false: Findings about anything else.
        latent_true: Layers that differ without an effect.
        latent_found: Those of them that some finding is about.
        latent_false: Findings without an effect about anything else.
        wrong: The findings that count as false or as explained wrongly, to be looked at.
    """

    true: int = 0
    found: int = 0
    explained: int = 0
    fixed: int = 0
    applicable: int = 0
    false: int = 0
    latent_true: int = 0
    latent_found: int = 0
    latent_false: int = 0
    wrong: list[str] = field(default_factory=list)


def score(pair: Pair, steps: list[Row]) -> Score:
    """Return the counts of one pair, from the comparisons one after another."""
    first = steps[0]
    findings: list[Row] = first.get("findings", [])
    result = Score()
    described = {id(finding): _difference(pair, finding) for finding in findings}
    for difference in pair.differences:
        own = [finding for finding in findings if described[id(finding)] is difference]
        located = min(difference.count, len(own))
        right = sum(_is_right(difference, finding) for finding in own)
        if difference.without_effect:
            result.latent_true += difference.count
            result.latent_found += located
        else:
            result.true += difference.count
            result.found += located
            result.explained += min(difference.count, right)
            result.applicable += 0 if pair.saved_port else difference.count
            result.fixed += min(difference.count, _num_fixed(difference, own, steps))
        result.wrong += [_line(f) for f in own if not _is_right(difference, f)]
    for finding in findings:
        if described[id(finding)] is None:
            result.wrong.append(_line(finding))
            if finding["latent"]:
                result.latent_false += 1
            else:
                result.false += 1
    return result


def _difference(pair: Pair, finding: Row) -> Difference | None:
    """Return the difference that a finding is about: one with its mismatch, or else one at its layer."""
    there = [difference for difference in pair.differences if _is_at(difference, finding)]
    named = [difference for difference in there if _is_right(difference, finding)]
    return (named or there or [None])[0]


def _is_right(difference: Difference, finding: Row) -> bool:
    """Whether a finding names nothing but mismatches that describe the difference; it may name several."""
    return set((finding["mismatch"] or "unexplained").split(" + ")) <= set(difference.mismatch)


def _is_at(difference: Difference, finding: Row) -> bool:
    sides = ((difference.layer_a, finding["layer_a"]), (difference.layer_b, finding["layer_b"]))
    return any(pattern and re.search(pattern, layer) for pattern, layer in sides)


def _num_fixed(difference: Difference, own: list[Row], steps: list[Row]) -> int:
    """Return how many findings were applied at the first step and are not made again at the second."""
    if len(steps) < 2 or "findings" not in steps[1]:
        return 0
    again = {(f["layer_a"], f["layer_b"]) for f in steps[1]["findings"] if not f["latent"]}
    applied = [f for f in steps[0].get("applied", []) if _is_right(difference, f)]
    names = {(f["layer_a"], f["layer_b"]) for f in own}
    return sum((f["layer_a"], f["layer_b"]) in names - again for f in applied)


def _line(finding: Row) -> str:
    latent = " (without effect)" if finding["latent"] else ""
    return f"{finding['layer_a']} / {finding['layer_b']}: {finding['mismatch']}{latent}: {finding['cause']}"


def totals(scores: Iterator[Score]) -> Score:
    """Return the sums of several counts."""
    total = Score()
    for one in scores:
        for name in (name for name in Score.__slots__ if name != "wrong"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total

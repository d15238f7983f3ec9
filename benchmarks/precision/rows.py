"""What is said of a pair of nets, against what should be said."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import netweave


@dataclass(frozen=True, slots=True)
class Row:
    """What was said of one pair.

    Attributes:
        net: The net.
        form: Its other version, or the planted fault.
        expected: The verdict that is right.
        verdict: The verdict.
        seen: The loss of the output; None where nothing is rounded.
        explained: What rounding explains of it.
        findings: Layer and mismatch of each finding.
        located: Whether every finding names a layer that is at fault, and there is one.
        seconds: Time of the comparison.
    """

    net: str
    form: str
    expected: str
    verdict: str
    seen: float | None
    explained: float | None
    findings: list[str] = field(default_factory=list)
    located: bool = True
    seconds: float = 0.0

    def unlocated(self) -> Row:
        """Return the row with a finding that does not say what is wrong."""
        return replace(self, located=False)


def compared(net: str, form: str, expected: str, a: Any, b: Any, layers: tuple[str, ...] = ()) -> Row:
    """Compare two nets.

    Args:
        net: Name of the net.
        form: What the second one is.
        expected: The verdict that is right.
        a: The first net.
        b: The second net.
        layers: Layers of the first one that may be named; none where there is nothing to find.
    """
    start = time.perf_counter()
    comparison = netweave.compare(a, b)
    seconds = time.perf_counter() - start
    findings = comparison.findings
    located = {finding.layer_a for finding in findings} <= set(layers) and bool(findings) == bool(layers)
    precision = comparison.precision
    return Row(
        net,
        form,
        expected,
        comparison.verdict.value,
        None if precision is None else round(precision.seen, 5),
        None if precision is None else round(precision.expected, 5),
        [f"{finding.layer_a}: {finding.mismatch}" for finding in findings],
        located,
        round(seconds, 2),
    )

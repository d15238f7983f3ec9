"""The differences that are planted, and the pairs of nets that they are planted in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.comparison.planted.formats import FORMATS
from tests.comparison.planted.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.comparison import Comparison


@dataclass(frozen=True)
class Kind:
    """A difference.

    Attributes:
        layer: The layer that differs.
        cause: What the cause says, as a regular expression.
        edit: Settings of the net with the difference.
        base: Settings of both nets that it needs.
        in_arrays: Whether it is in values of arrays alone, which nobody sees without weights.
    """

    layer: str
    cause: str
    edit: Mapping[str, Any]
    base: Mapping[str, Any] = field(default_factory=dict)
    in_arrays: bool = False


KINDS = {
    "eps": Kind("bn1", r"\beps\w* is", {"eps": 0.5}),
    "small eps": Kind("bn1", r"\beps\w* is", {"eps": 1e-3}),
    "fixed gamma": Kind("bn1", "gamma|factor", {"fixed_gamma": True}),
    "slope": Kind("act1", "alpha is|Relu", {"slope": 0.3}),
    "no slope": Kind("act1", "alpha is|Relu", {"slope": 0.0}),
    "factor": Kind("scale1", "factor|has .* here", {"scale": 0.7}),
    "factor left out": Kind("scale1", "has .* here", {"scale": 1.0}),
    "factor added": Kind("scale1", "has .* here", {"scale": 0.7}, base={"scale": 1.0}),
    "lrn": Kind("scale1", "alpha is", {"lrn": 0.5}, base={"scale": 1.0, "lrn": 1e-4}),
    "padding": Kind("conv2", "padding is", {"pad": 0}),
    "activation": Kind("act2", "Tanh", {"activation": "tanh"}),
    "pooling": Kind("pool", "Average", {"pooling": "average"}),
    "end": Kind("prob", "Sigmoid", {"end": "sigmoid"}),
    "filters": Kind("conv2", "(1.5|0.666667) times", {"factor": 1.5}, in_arrays=True),
}

SAME = Kind("", "", {})
"""No difference: two nets that are the same."""

STATES = {"both": (True, True), "one": (True, False), "none": (False, False)}
"""Which of the nets have their weights."""


def plans(kind: Kind, a: str, b: str, *, weights: str = "usual") -> tuple[Plan, Plan] | None:
    """Return A's plan and B's, which has the difference; None where one of the formats cannot say it.

    Args:
        kind: The difference.
        a: A's format.
        b: B's format.
        weights: As in ``Plan``, of both nets.
    """
    fixed = {**FORMATS[a].fixed, **FORMATS[b].fixed}
    base = replace(Plan(weights=weights), **{**fixed, **kind.base})
    edited = replace(base, **kind.edit, seed=1)
    is_said = FORMATS[a].takes(base) and FORMATS[b].takes(edited)
    return (base, edited) if is_said and (replace(edited, seed=0) != base or kind is SAME) else None


def is_named(found: Comparison, kind: Kind, a: str, b: str) -> bool:
    """Whether a finding names the layer that differs, and why."""
    return any(
        (
            finding.layer_a in FORMATS[a].names_of(kind.layer)
            or finding.layer_b in FORMATS[b].names_of(kind.layer)
        )
        and re.search(kind.cause, finding.cause)
        for finding in found.findings
    )

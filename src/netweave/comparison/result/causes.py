"""Findings by cause, and the headline that says them: a setting that is wrong in every block is one cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.result.verdicts import Verdict
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from netweave.comparison.result.comparison import Comparison, Finding


_QUOTED = re.compile(r"'[^']*'")

_SETTING = re.compile(r"(?P<name>.+) is (?P<a>.+) in A and (?P<b>.+) in B")


@dataclass(frozen=True, slots=True)
class Cause:
    """A difference between two nets, with all places where it was made.

    Attributes:
        text: What differs, in the words of both sources.
        fix: What to change; empty if unknown. Where names of arrays are part of it, it is that of the first
            place.
        findings: The places, in A's order; at least one.
        num_described: How many of them the text is about, from the first on: two where a setting moved.
    """

    text: str
    fix: str
    findings: tuple[Finding, ...]
    num_described: int = 1

    @property
    def first(self) -> Finding:
        """The first place."""
        return self.findings[0]

    @property
    def latent(self) -> bool:
        """True if it has no effect with these weights and inputs."""
        return self.first.latent

    @property
    def places(self) -> tuple[Finding, ...]:
        """One finding for each layer: a module that is called twice is one place."""
        return tuple({_layer(finding): finding for finding in reversed(self.findings)}.values())[::-1]

    @property
    def num_alike(self) -> int:
        """Number of places that the text is not about."""
        return len(self.places) - self.num_described


def causes_of(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Return the causes of findings, those with an effect first, then in order of their first places.

    Findings have one cause if they say the same of several layers. A setting that one layer has in A and a
    layer beside it in B has moved: that is one cause as well, wherever it was made.
    """
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(sorted(findings, key=lambda finding: finding.latent)):
        words = finding.mismatch or number, finding.cause, _QUOTED.sub("", finding.fix), finding.latent
        alike.setdefault(words, []).append(finding)
    causes: list[Cause] = []
    for same in alike.values():
        index = next((i for i, cause in enumerate(causes) if _has_moved(cause.findings, same)), None)
        if index is None:
            causes.append(Cause(same[0].cause, same[0].fix, tuple(same)))
        else:
            causes[index] = _moved(causes[index].findings, same)
    return tuple(causes)


def _layer(finding: Finding) -> str:
    return finding.layer_b or finding.layer_a


def _has_moved(ones: Sequence[Finding], others: Sequence[Finding]) -> bool:
    """Return whether a setting of some layers is in B that of others in A, and the other way round."""
    read = [_SETTING.fullmatch(findings[0].cause) for findings in (ones, others)]
    if read[0] is None or read[1] is None or len(ones) != len(others):
        return False
    one, other = (match.groupdict() for match in read if match is not None)
    is_mirrored = one["name"] == other["name"] and (one["a"], one["b"]) == (other["b"], other["a"])
    return is_mirrored and ones[0].mismatch == others[0].mismatch and ones[0].latent == others[0].latent


def _moved(ones: Sequence[Finding], others: Sequence[Finding]) -> Cause:
    """Return the cause of a setting that moved: from where A has its larger value to where B has it."""
    read = _SETTING.fullmatch(ones[0].cause)
    assert read is not None
    name, value_a, value_b = read.group("name", "a", "b")
    value, in_a, in_b = (
        (value_a, ones, others) if _size(value_a) >= _size(value_b) else (value_b, others, ones)
    )
    text = f"{name} of {value} moved from {in_a[0].layer_a} in A to {in_b[0].layer_b} in B"
    places = [finding for both in zip(ones, others, strict=True) for finding in both]
    fixes = [f"{finding.fix} at {_layer(finding)}" for finding in (ones[0], others[0]) if finding.fix]
    return Cause(text, ", ".join(fixes), tuple(places), num_described=2)


def _size(value: str) -> tuple[float, str]:
    """Return what orders two values of a setting: the first number in it, and the text."""
    number = re.search(r"-?\d+(\.\d+)?(e-?\d+)?", value)
    return (float(number.group()) if number else float("-inf")), value


MAX_WORDS = 20
"""Words of a headline at most, so that it is read at a glance."""

_CLAUSES = re.compile(r";\s|\.\s"), re.compile(r"[:,](?=\s)")
"""Ends of clauses: those of whole clauses are tried first."""


def headline(comparison: Comparison) -> str:
    """Return the verdict in at most twenty words: of nets that differ, the first cause and how many more."""
    causes = [cause for cause in comparison.causes if not cause.latent] or list(comparison.causes)
    if comparison.verdict is not Verdict.DIFFERENT or not causes:
        return _cut(comparison.sentence, MAX_WORDS)
    more = f"; {len(causes) - 1} more" if len(causes) > 1 else ""
    where = _where(causes[0])
    words = MAX_WORDS - len(f"different {where}:{more}".split())
    return f"different {where}: {_cut(causes[0].text, words)}{more}"


def apart_in_words(error: float) -> str:
    """Say how far the outputs of two nets are apart, given the largest error relative to their rms."""
    if error == float("inf"):
        return "the outputs of the nets have different sizes, or are not finite"
    return f"the outputs of the nets differ by up to {ratio_text(error)} times their rms"


def _where(cause: Cause) -> str:
    if len(cause.places) > 1:
        return f"in {len(cause.places)} places"
    names = dict.fromkeys(name for name in (cause.first.layer_a, cause.first.layer_b) if name)
    return f"at {' / '.join(names)}" if names else "in one place"


def _cut(text: str, num_words: int) -> str:
    """Return a text of so many words: its first clauses, or its first words and an ellipsis.

    >>> _cut("strides is 1 in A and 2 in B; the same elsewhere", 9)
    'strides is 1 in A and 2 in B'
    >>> _cut("one two three", 2)
    'one two …'
    """
    if len(text.split()) <= num_words:
        return text
    for clause in _CLAUSES:
        ends = [match.start() for match in clause.finditer(text)]
        fitting = [text[:end] for end in ends if len(text[:end].split()) <= num_words]
        if fitting:
            return fitting[-1]
    return f"{' '.join(text.split()[:num_words])} …"

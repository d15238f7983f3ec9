"""A comparison in one short line, and what belongs below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from netweave.comparison.metric import OUTPUT_TOLERANCE
from netweave.comparison.result.verdicts import Verdict
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from netweave.comparison.result.causes import Cause
    from netweave.comparison.result.comparison import Comparison

MAX_WORDS = 20
"""Words of a headline at most, so that it is read at a glance."""

_CLAUSE = re.compile(r"[:;,](?=\s)|\.\s")


def headline(comparison: Comparison) -> str:
    """Return the verdict in at most twenty words: of nets that differ, the first cause and how many more."""
    causes = [cause for cause in comparison.causes if not cause.latent] or list(comparison.causes)
    if comparison.verdict is not Verdict.DIFFERENT or not causes:
        return _cut(comparison.sentence, MAX_WORDS)
    more = f"; {len(causes) - 1} more" if len(causes) > 1 else ""
    where = _where(causes[0])
    words = MAX_WORDS - len(f"different {where}:{more}".split())
    return f"different {where}: {_cut(causes[0].text, words)}{more}"


def detail(comparison: Comparison) -> str:
    """Return what the headline and the findings leave to be said: how far apart the outputs are."""
    error = comparison.error
    if comparison.verdict is Verdict.DIFFERENT and comparison.findings and (error or 0.0) > OUTPUT_TOLERANCE:
        apart = apart_in_words(error or 0.0)
        return apart[:1].upper() + apart[1:]
    return "" if comparison.sentence == headline(comparison) else comparison.sentence


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

    >>> _cut("strides is 1 in A and 2 in B; the same elsewhere", 8)
    'strides is 1 in A and 2 in B'
    >>> _cut("one two three", 2)
    'one two …'
    """
    if len(text.split()) <= num_words:
        return text
    ends = [match.start() for match in _CLAUSE.finditer(text)]
    fitting = [text[:end] for end in ends if len(text[:end].split()) <= num_words]
    return fitting[-1] if fitting else f"{' '.join(text.split()[:num_words])} …"

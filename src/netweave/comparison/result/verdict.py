"""The verdict on a pair of nets, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netweave.comparison.metric import LOCAL_TOLERANCE, OUTPUT_TOLERANCE
from netweave.comparison.result.causes import apart_in_words, causes_of, headline
from netweave.comparison.result.comparison import (
    MAX_SHOWN,
    Finding,
    Group,
    OutputPair,
    Status,
    TensorMapping,
    Unexercised,
)
from netweave.comparison.result.verdicts import Verdict
from netweave.graph.summary import list_names, ratio_text

if TYPE_CHECKING:
    from netweave.comparison.explain.agreement import Agreement
    from netweave.comparison.result.causes import Cause
    from netweave.comparison.result.comparison import Comparison

EFFECTIVE = frozenset({Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B})
"""What alone makes two nets different: what propagates an earlier difference, or has no effect, does not."""


WITHOUT_EFFECT = EFFECTIVE | {Status.LATENT, Status.UNKNOWN}
"""What keeps nets whose outputs agree from being identical: differences, and layers not compared."""


NOT_EXERCISED = "not exercised: "


def decide(
    inputs: Sequence[TensorMapping],
    outputs: Sequence[OutputPair],
    groups: Sequence[Group],
    agreement: Agreement | None = None,
    *,
    tolerance: float = OUTPUT_TOLERANCE,
    weights_compared: bool = True,
    unfilled: int = 0,
    joined: Sequence[str] = (),
    unlike_inputs: str = "",
    untried: Sequence[Unexercised] = (),
    limits: Sequence[Unexercised] = (),
) -> tuple[Verdict, str]:
    """Return the verdict and its sentence.

    Args:
        inputs: How A's inputs become B's, with words.
        outputs: All outputs.
        groups: All groups, judged.
        agreement: What the agreement of the outputs is worth, if they agree.
        tolerance: Largest relative error of an output treated as equal.
        weights_compared: Whether both nets ran with their own weights. Where one ran with copies of the
            other's, agreement says something of the structure only.
        unfilled: Number of arrays without values of their own that no values were found for.
        joined: How outputs of one net are joined in the other, in words.
        unlike_inputs: Which inputs both nets have, in words, if there is no size that both can be run on.
        untried: What the nets differ in and the inputs did not exercise.
        limits: What else was not exercised and is said.
    """
    apart = [pair for pair in outputs if not pair.agrees(tolerance)]
    if outputs and not apart:
        doubt = _doubtful(agreement, outputs) if agreement is not None else None
        if doubt is not None:
            return doubt
        verdict, sentence = _equal(
            inputs, outputs, groups, joined, weights_compared=weights_compared, has_untried=bool(untried)
        )
        shown = [*untried, *limits][:MAX_SHOWN]
        return verdict, f"{sentence}; {NOT_EXERCISED}{'; '.join(map(str, shown))}" if shown else sentence
    effective = [group for group in groups if group.status in EFFECTIVE]
    if apart and all(not pair.a for pair in apart) and len(apart) < len(outputs):
        return Verdict.DIFFERENT, _more_outputs(inputs, outputs, apart)
    if effective:
        culprits = [group for group in effective if group.finding] or effective
        return Verdict.DIFFERENT, difference_in_words(culprits, apart)
    if any(not pair.a or not pair.b for pair in apart):
        named = ", ".join(repr(pair.a or pair.b) for pair in apart if not pair.a or not pair.b)
        return Verdict.DIFFERENT, f"different: output {named} has no counterpart in the other net"
    unknown = [group for group in groups if group.status is Status.UNKNOWN]
    worst = max((pair.error for pair in apart if pair.error is not None), default=None)
    effect = "no output can be compared" if worst is None else apart_in_words(worst)
    effect = f"{unlike_inputs}, so that {effect}" if unlike_inputs else effect
    if unknown:
        where = list_names(name for group in unknown for name in group.layers_a or group.layers_b)
        return Verdict.UNDECIDED, f"not decidable: {effect}, and {where} could not be compared in isolation"
    if unfilled:
        return Verdict.STRUCTURE, (
            f"{Verdict.STRUCTURE.value}: every layer agrees when given the same inputs and weights, but no "
            f"values were found for {unfilled} of the arrays"
        )
    return Verdict.UNDECIDED, (
        f"not decidable: {effect}, although every layer agrees when given the same inputs: "
        "rounding errors accumulate"
    )


def detail(comparison: Comparison) -> str:
    """Return what the headline and the findings leave to be said: how far apart the outputs are."""
    sentence, shown = comparison.sentence, headline(comparison)
    rest = sentence.removeprefix(shown)
    if sentence.startswith(shown) and (not rest or rest[0] in ".;"):
        rest = rest.lstrip(" .;")
        return _capital(rest) if rest.startswith(NOT_EXERCISED) else rest
    if comparison.verdict is Verdict.DIFFERENT and comparison.findings:
        if (comparison.error or 0.0) > OUTPUT_TOLERANCE:
            return _capital(apart_in_words(comparison.error or 0.0))
        agreement = _capital(_agreement_in_words(len(comparison.outputs), comparison.error or 0.0))
        _, found, rest = sentence.partition(agreement)
        return found + rest or sentence
    return sentence


def _doubtful(agreement: Agreement, outputs: Sequence[OutputPair]) -> tuple[Verdict, str] | None:
    """Return the verdict where agreeing outputs say nothing; None if they do (decision 0128)."""
    agree = _agreement(outputs)
    if agreement.hidden:
        culprits = [group for group in agreement.hidden if group.finding] or agreement.hidden
        return (
            Verdict.DIFFERENT,
            f"{difference_in_words(culprits, [])}. {_capital(agree)}, but {agreement.reason}",
        )
    if agreement.untested:
        return Verdict.UNDECIDED, (
            f"not decidable: {agree}, but {agreement.reason}, and nothing can be said about "
            f"{list_names(agreement.untested)}, whose results do not depend on their inputs"
        )
    return None


def _agreement(outputs: Sequence[OutputPair], whose: str = "") -> str:
    """Say how far outputs agree.

    Args:
        outputs: Pairs that agree.
        whose: Whose outputs they are, where the other net has more: ``A``.
    """
    return _agreement_in_words(len(outputs), max(pair.error or 0.0 for pair in outputs), whose)


def _agreement_in_words(num_outputs: int, worst: float, whose: str = "") -> str:
    """Say how far outputs agree, given how many they are and their largest error relative to their rms."""
    if num_outputs > 1:
        subject, verbs = f"all {num_outputs} outputs{f' of {whose}' if whose else ''}", ("are", "agree")
    else:
        subject, verbs = f"{whose}'s output" if whose else "the output", ("is", "agrees")
    if worst == 0:
        return f"{subject} {verbs[0]} identical"
    return f"{subject} {verbs[1]} to within {ratio_text(worst)} of the rms"


def _equal(
    inputs: Sequence[TensorMapping],
    outputs: Sequence[OutputPair],
    groups: Sequence[Group],
    joined: Sequence[str],
    *,
    weights_compared: bool,
    has_untried: bool,
) -> tuple[Verdict, str]:
    agree = _agreement(outputs)
    apart = [group for group in groups if group.status in WITHOUT_EFFECT]
    latent = len(apart)
    small = sum(group.status is Status.DIFFERENT and _has_effect(group) for group in apart)
    counts = {"without effect here": latent - small, "within the tolerance": small}
    tail = "".join(f"; {n} difference{'s' * (n > 1)} {where}" for where, n in counts.items() if n)
    mapped = _mapped_in_words(inputs, outputs, joined)
    if not weights_compared:
        under = f"{mapped}; " if mapped else ""
        copied = "with weights copied from one net to the other"
        return Verdict.STRUCTURE, f"{Verdict.STRUCTURE.value}: {under}{copied}, {agree}{tail}"
    if not mapped:
        if latent or has_untried:
            return Verdict.LATENT, f"equal for these weights and inputs: {agree}{tail}"
        return Verdict.IDENTICAL, f"identical: {agree}"
    return Verdict.EQUAL, f"equal under a mapping: {mapped}; {agree}{tail}"


def _has_effect(group: Group) -> bool:
    """Return whether a group makes other values of the same ones, by more than rounding."""
    return group.isolated_error is not None and group.isolated_error > LOCAL_TOLERANCE


def _mapped_in_words(
    inputs: Sequence[TensorMapping], outputs: Sequence[OutputPair], joined: Sequence[str] = ()
) -> str:
    """Say how inputs and outputs of A become those of B; nothing where they are the same."""
    changed = [mapping for mapping in inputs if not mapping.is_identity]
    given = "; ".join(f"input {mapping.b!r} with {mapping.text}" for mapping in changed)
    changed_outputs = _outputs_in_words(
        [pair for pair in outputs if pair.mapping is not None and pair.mapping.text]
    )
    moved = [] if joined else [pair for pair in outputs if pair.moved]  # parts stand as they are joined
    places = ", ".join(repr(pair.b) if pair.a == pair.b else f"{pair.b!r} for {pair.a!r}" for pair in moved)
    parts = [f"given {given}"] if given else []
    parts += [f"B returns {changed_outputs}"] if changed_outputs else []
    parts += joined
    return ", ".join([*parts, f"B returns its outputs in another order ({places})"] if places else parts)


def _more_outputs(
    inputs: Sequence[TensorMapping], outputs: Sequence[OutputPair], more: Sequence[OutputPair]
) -> str:
    """Say that B returns all outputs of A, and others as well."""
    agreeing = [pair for pair in outputs if pair.a]
    mapped = _mapped_in_words(inputs, agreeing)
    under = f" ({mapped})" if mapped else ""
    named = ", ".join(repr(pair.b) for pair in more)
    noun = "the output" if len(more) == 1 else "the outputs"
    return (
        f"different only because B has more outputs: {_agreement(agreeing, 'A')}{under}; "
        f"B also returns {noun} {named}"
    )


def _outputs_in_words(pairs: Sequence[OutputPair]) -> str:
    by_text: dict[str, list[str]] = {}
    for pair in pairs:
        by_text.setdefault(pair.mapping.text if pair.mapping else "", []).append(pair.b)
    return "; ".join(f"{', '.join(map(repr, names))} with {text}" for text, names in by_text.items())


def difference_in_words(culprits: Sequence[Group], apart: Sequence[OutputPair]) -> str:
    """Say where nets differ, by how much, and what to change.

    Args:
        culprits: Groups that differ, the first of which is described.
        apart: The outputs that differ.
    """
    errors = [pair.error for pair in apart if pair.error is not None]
    causes = causes_of(group.finding for group in culprits if group.finding is not None)
    if not causes:
        sentences = [f"different at {', '.join((*culprits[0].layers_a, *culprits[0].layers_b))}"]
        more = len(culprits) - 1
    else:
        sentences = [f"different at {place_in_words(causes[0].first)}: {causes[0].text}"]
        alike = causes[0].num_alike
        sentences[0] += f"; the same in {alike} other layer{'s' * (alike > 1)}" if alike else ""
        more = len(causes) - 1
    if more:
        sentences.append(f"{more} more difference{'s' * (more > 1)}")
    if errors:
        sentences.append(_capital(apart_in_words(max(errors))))
    if causes:
        sentences += _remedy(causes[0])
    return ". ".join(sentences)


def _capital(clause: str) -> str:
    """Return a clause as the beginning of a sentence; the rest, with its names, stays as it is."""
    return clause[:1].upper() + clause[1:]


def place_in_words(finding: Finding) -> str:
    """Return the layers of a finding, and where they stand in both sources."""
    names = [name for name in (finding.layer_a, finding.layer_b) if name]
    label = " / ".join(dict.fromkeys(names))
    places = [place for place in (finding.place_a, finding.place_b) if place]
    return f"{label} ({' / '.join(places)})" if places else label


def _remedy(cause: Cause) -> list[str]:
    error_fixed = cause.first.error_fixed
    return (
        [f"Fix: {cause.fix}, after which {_after_the_fix(error_fixed)}"]
        if cause.fix and error_fixed is not None
        else []
    )


def _after_the_fix(error: float) -> str:
    if error == 0:
        return "the outputs of the layer are identical"
    return f"the outputs of the layer agree to within {ratio_text(error)} of the rms"

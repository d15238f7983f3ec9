"""The verdict on a pair of nets, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.metric import OUTPUT_TOLERANCE
from netweave.comparison.result.comparison import Finding, Group, Status, TensorMapping, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.explain.agreement import Agreement

MAX_NAMES = 4
"""More layers than this are not named."""

EFFECTIVE = frozenset({Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B})


@dataclass(frozen=True, slots=True)
class OutputPair:
    """An output of A against one of B.

    Attributes:
        a: Name of A's output; empty if only B has it.
        b: Name of B's output; empty if only A has it.
        error: Difference relative to the rms; None if they cannot be compared.
        mapping: How A's becomes B's.
        moved: Whether it stands in another place among B's outputs, under another name.
    """

    a: str
    b: str
    error: float | None = None
    mapping: TensorMapping | None = None
    moved: bool = False

    def agrees(self, tolerance: float = OUTPUT_TOLERANCE) -> bool:
        """Whether the two are equal under the mapping."""
        return self.error is not None and self.error <= tolerance


def decide(
    inputs: Sequence[TensorMapping],
    outputs: Sequence[OutputPair],
    groups: Sequence[Group],
    agreement: Agreement | None = None,
    *,
    tolerance: float = OUTPUT_TOLERANCE,
    weights_compared: bool = True,
    unfilled: int = 0,
) -> tuple[Verdict, str]:
    """Return the verdict and its sentence.

    Args:
        inputs: How A's inputs become B's, with words.
        outputs: All outputs.
        groups: All groups, judged.
        agreement: What it proves that the outputs agree, if they do.
        tolerance: Largest error of an output that counts as none.
        weights_compared: Whether both nets ran with their own weights. Where one ran with copies of the
            other's, agreement says something of the structure only.
        unfilled: Number of arrays without values of their own that no values were found for.
    """
    apart = [pair for pair in outputs if not pair.agrees(tolerance)]
    if outputs and not apart:
        doubt = _doubtful(agreement, outputs) if agreement is not None else None
        return doubt or _equal(inputs, outputs, groups, weights_compared=weights_compared)
    effective = [group for group in groups if group.status in EFFECTIVE]
    if apart and all(not pair.a for pair in apart) and len(apart) < len(outputs):
        return Verdict.DIFFERENT, _more_outputs(inputs, outputs, apart)
    if effective:
        culprits = [group for group in effective if group.finding] or effective
        return Verdict.DIFFERENT, _different(culprits, apart)
    if any(not pair.a or not pair.b for pair in apart):
        named = ", ".join(repr(pair.a or pair.b) for pair in apart if not pair.a or not pair.b)
        return Verdict.DIFFERENT, f"different: output {named} has no counterpart in the other net"
    unknown = [group for group in groups if group.status is Status.UNKNOWN]
    worst = max((pair.error for pair in apart if pair.error is not None), default=None)
    said = "no output can be compared" if worst is None else _apart(worst)
    if unknown:
        where = ", ".join(
            dict.fromkeys(name for group in unknown[:4] for name in group.layers_a or group.layers_b)
        )
        return Verdict.UNDECIDED, f"not decidable: {said}, and {where} could not be compared alone"
    if unfilled:
        return Verdict.STRUCTURE, (
            f"{Verdict.STRUCTURE.value}: every layer agrees on the same inputs and weights; no values were "
            f"found for {unfilled} of the arrays"
        )
    return Verdict.UNDECIDED, (
        f"not decidable: {said}, though every layer agrees on the same inputs; rounding grows on the way"
    )


def _doubtful(agreement: Agreement, outputs: Sequence[OutputPair]) -> tuple[Verdict, str] | None:
    """Return the verdict where agreeing outputs prove nothing; None if they do."""
    agree = _agreement(outputs)
    if agreement.hidden:
        culprits = [group for group in agreement.hidden if group.finding] or agreement.hidden
        return Verdict.DIFFERENT, f"{_different(culprits, [])}; {agree}, but {agreement.reason}"
    if agreement.untested:
        names = ", ".join(agreement.untested[:MAX_NAMES])
        more = len(agreement.untested) - MAX_NAMES
        names += f" and {more} more" if more > 0 else ""
        return Verdict.UNDECIDED, (
            f"not decidable: {agree}, but {agreement.reason}, and nothing can be said about {names}, "
            "whose results do not depend on their inputs"
        )
    return None


def _agreement(outputs: Sequence[OutputPair]) -> str:
    worst = max(pair.error or 0.0 for pair in outputs)
    count = f"all {len(outputs)} outputs agree" if len(outputs) > 1 else "the output agrees"
    return f"{count} to {worst:.1g} of the rms"


def _equal(
    inputs: Sequence[TensorMapping],
    outputs: Sequence[OutputPair],
    groups: Sequence[Group],
    *,
    weights_compared: bool,
) -> tuple[Verdict, str]:
    agree = _agreement(outputs)
    latent = sum(group.status in {Status.LATENT, *EFFECTIVE} for group in groups)
    tail = f"; {latent} difference{'s' * (latent > 1)} without effect here" if latent else ""
    mapped = _mapped_in_words(inputs, outputs)
    if not weights_compared:
        under = f"{mapped}; " if mapped else ""
        copied = "with weights copied from one to the other"
        return Verdict.STRUCTURE, f"{Verdict.STRUCTURE.value}: {under}{copied}, {agree}{tail}"
    if not mapped:
        if latent:
            return Verdict.EQUAL, f"equal for these weights and inputs: {agree}{tail}"
        return Verdict.IDENTICAL, f"identical: {agree}"
    return Verdict.EQUAL, f"equal under a stated mapping: {mapped}; {agree}{tail}"


def _mapped_in_words(inputs: Sequence[TensorMapping], outputs: Sequence[OutputPair]) -> str:
    """Say how inputs and outputs of A become those of B; nothing where they are the same."""
    changed = [mapping for mapping in inputs if not mapping.is_identity]
    given = "; ".join(f"input {mapping.b!r} with {mapping.text}" for mapping in changed)
    made = _outputs_in_words(
        [pair for pair in outputs if pair.mapping is not None and not pair.mapping.is_identity]
    )
    places = ", ".join(f"{pair.b!r} for {pair.a!r}" for pair in outputs if pair.moved)
    parts = [f"given {given}"] if given else []
    parts += [f"B makes {made}"] if made else []
    return ", ".join([*parts, f"B gives its outputs in another order ({places})"] if places else parts)


def _more_outputs(
    inputs: Sequence[TensorMapping], outputs: Sequence[OutputPair], more: Sequence[OutputPair]
) -> str:
    """Say that B does all that A does, and makes other outputs besides."""
    agreeing = [pair for pair in outputs if pair.a]
    worst = max(pair.error or 0.0 for pair in agreeing)
    count = f"all {len(agreeing)} outputs of A agree" if len(agreeing) > 1 else "A's output agrees"
    mapped = _mapped_in_words(inputs, agreeing)
    under = f" ({mapped})" if mapped else ""
    named = ", ".join(repr(pair.b) for pair in more)
    noun = "the output" if len(more) == 1 else "the outputs"
    return (
        f"different only in what B makes besides: {count} to {worst:.1g} of the rms{under}; "
        f"B has {noun} {named} as well"
    )


def _outputs_in_words(pairs: Sequence[OutputPair]) -> str:
    by_text: dict[str, list[str]] = {}
    for pair in pairs:
        by_text.setdefault(pair.mapping.text if pair.mapping else "", []).append(pair.b)
    return "; ".join(f"{', '.join(map(repr, names))} with {text}" for text, names in by_text.items())


def _different(culprits: Sequence[Group], apart: Sequence[OutputPair]) -> str:
    first = culprits[0].finding
    errors = [pair.error for pair in apart if pair.error is not None]
    effect = f"; {_apart(max(errors))}" if errors else ""
    more = f"; {len(culprits) - 1} more difference{'s' * (len(culprits) > 2)}" if len(culprits) > 1 else ""
    if first is None:
        names = ", ".join((*culprits[0].layers_a, *culprits[0].layers_b))
        return f"different at {names}{more}{effect}"
    return f"different at {place_in_words(first)}: {first.cause}{_remedy(first)}{more}{effect}"


def _apart(error: float) -> str:
    if error == float("inf"):
        return "the outputs have other sizes, or values that are no numbers"
    return f"the outputs differ by {error:.2g} of their rms"


def place_in_words(finding: Finding) -> str:
    """Return the layers of a finding, and where they stand in both sources."""
    names = [name for name in (finding.layer_a, finding.layer_b) if name]
    label = " / ".join(dict.fromkeys(names))
    places = [place for place in (finding.place_a, finding.place_b) if place]
    return f"{label} ({' / '.join(places)})" if places else label


def _remedy(finding: Finding) -> str:
    if not finding.fix or finding.error_fixed is None:
        return ""
    return f"; with {finding.fix} the layer agrees to {finding.error_fixed:.1g}"

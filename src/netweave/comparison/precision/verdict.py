"""The result of comparing nets of different precision: findings, the loss of each layer, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.result.comparison import (
    EQUAL_VERDICTS,
    Comparison,
    Coverage,
    Finding,
    Group,
    OutputPair,
    Precision,
    Status,
    TensorValues,
    Unexercised,
)
from netweave.comparison.result.verdict import EFFECTIVE, difference_in_words, place_in_words
from netweave.comparison.result.verdicts import Verdict
from netweave.graph import Graph
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from netweave.comparison.precision.measuring import Loss
    from netweave.comparison.precision.reference import StoredFault

SLACK = 2.0
"""How many times the expected loss a layer may lose: formats that are cut off and not rounded lose twice."""

LARGEST_FLOAT16 = 65504

NOTHING_LEFT = 0.5
"""Expected loss of an output from which on it says nothing of the net: half of its rms is noise."""


@dataclass(frozen=True, slots=True)
class GroupLoss:
    """The error that rounding causes at the output of a group.

    Attributes:
        loss: How much.
        values: What is shown of the output, with rounding in one net; None where nothing is shown.
    """

    loss: Loss
    values: TensorValues | None


@dataclass(slots=True)
class RoundedResult:
    """The result on its way.

    Attributes:
        plain: The comparison without roundings.
        side: The net that is rounded, ``A`` or ``B``.
        formats: The formats that it rounds to.
        tolerance: Largest error of an output that counts as none in any case.
        findings: What is wrong with the roundings, by the number of the group; None for no group.
    """

    plain: Comparison
    side: str
    formats: tuple[str, ...]
    tolerance: float
    findings: list[tuple[int | None, Finding]] = field(default_factory=list)

    def add(
        self,
        number: int | None,
        graph: Graph,
        node: ir.Node | None,
        fault: StoredFault,
        error: float | None,
        loss: Loss | None,
    ) -> None:
        """Add a fault.

        Args:
            number: The number of its group; None if no group has its layer.
            graph: The rounded net.
            node: Its node there.
            fault: What is wrong.
            error: What the layer loses with this fault alone.
            loss: What it loses with all of them, and with none.
        """
        layers = graph.layers_of(node) if node is not None else []
        name, place = (layers[0].name, str(layers[0].origin or "")) if layers else ("", "")
        other = self._other_layer(number)
        is_b = self.side == "B"
        finding = Finding(
            mismatch=fault.kind,
            cause=fault.cause,
            fix=fault.fix if is_b else "",
            layer_a=other[0] if is_b else name,
            place_a=other[1] if is_b else place,
            layer_b=name if is_b else other[0],
            place_b=place if is_b else other[1],
            error=error if error is not None else loss.seen if loss is not None else None,
            error_fixed=loss.expected if loss is not None else None,
        )
        self.findings.append((number, finding))

    def _other_layer(self, number: int | None) -> tuple[str, str]:
        if number is None:
            return "", ""
        net, group = (self.plain.a if self.side == "B" else self.plain.b), self.plain.groups[number]
        keys = group.layers_a if self.side == "B" else group.layers_b
        layers = [net.layers[key] for key in keys if key in net.layers]
        return (layers[0].name, str(layers[0].origin or "")) if layers else ("", "")

    def comparison(self, losses: Mapping[int, GroupLoss], outputs: Sequence[Loss]) -> Comparison:
        """Return the comparison with the loss of each layer, what is wrong with it, and the verdict."""
        groups = self._groups(losses)
        expected = max((loss.expected for loss in outputs), default=0.0)
        seen = max((loss.seen for loss in outputs), default=0.0)
        precision = Precision(self.side, self.formats, seen=seen, expected=expected)
        verdict, sentence = self._decided(groups, precision)
        notes = self.plain.notes
        coverage = self.plain.coverage
        if missed := _overflow(self.formats):
            coverage = (coverage or Coverage(0)).missing(missed)
        if self.plain.equal:
            notes = (f"apart from rounding: {self.plain.sentence}", *notes)
        return replace(
            self.plain,
            verdict=verdict,
            sentence=sentence,
            groups=tuple(groups),
            error=seen,
            precision=precision,
            notes=notes,
            coverage=coverage if verdict in EQUAL_VERDICTS else None,
        )

    def unmeasured(self, reason: str) -> Comparison:
        """Return the comparison where only stored arrays could be judged, and why."""
        note = f"what rounding to {' and '.join(self.formats)} costs is not measured: {reason}"
        plain = replace(self.plain, groups=tuple(self._groups({})), notes=(*self.plain.notes, note))
        if not self.findings:
            return plain
        culprits = [group for group in plain.groups if group.finding and group.status in EFFECTIVE]
        sentence = difference_in_words(culprits, [])
        return replace(plain, verdict=Verdict.DIFFERENT, sentence=sentence)

    def _groups(self, losses: Mapping[int, GroupLoss]) -> list[Group]:
        """Return the groups with their losses and faults; one more group for each second fault."""
        by_group: dict[int, list[Finding]] = {}
        for number, finding in self.findings:
            if number is not None:
                by_group.setdefault(number, []).append(finding)
        groups: list[Group] = []
        is_off = False
        for number, group in enumerate(self.plain.groups):
            loss, own = losses.get(number), by_group.get(number, [])
            is_off = is_off or bool(own)
            groups.append(_with_loss(group, loss, own[0] if own else None, after_fault=is_off))
            groups += [replace(groups[-1], finding=more) for more in own[1:]]
        return groups

    def _decided(self, groups: Sequence[Group], precision: Precision) -> tuple[Verdict, str]:
        seen, expected = precision.seen, precision.expected
        culprits = [group for group in groups if group.status in EFFECTIVE and group.finding]
        culprits = culprits or [group for group in groups if group.status in EFFECTIVE]
        if self.findings and not culprits:  # what is wrong belongs to no group
            finding = self.findings[0][1]
            return Verdict.DIFFERENT, f"different at {place_in_words(finding)}: {finding.cause}"
        if self.findings or (self.plain.verdict is Verdict.DIFFERENT and culprits):
            return Verdict.DIFFERENT, difference_in_words(culprits, [OutputPair("", "", seen)])
        if not self.plain.equal:
            return self.plain.verdict, self.plain.sentence
        scales = precision.holding
        if expected > NOTHING_LEFT:
            return Verdict.UNDECIDED, (
                f"not decidable: rounding to {scales} alone changes the output by {ratio_text(expected)} of "
                "its rms; every layer agrees within its own rounding"
            )
        if seen > max(SLACK * expected, self.tolerance):
            return Verdict.DIFFERENT, (
                f"different: the output differs by {ratio_text(seen)} of its rms, and rounding to {scales} "
                f"explains no more than {ratio_text(expected)}"
            )
        verdict = Verdict.LATENT if self.plain.verdict is Verdict.LATENT else Verdict.EQUAL
        return verdict, (
            f"{verdict.value}: {self.side} computes in {precision.text}, and its output differs by "
            f"{ratio_text(seen)} of its rms, within what {scales} can hold ({ratio_text(expected)})"
            f"{_overflow_text(self.formats)}"
        )


def _overflow(formats: Sequence[str]) -> Unexercised | None:
    """Return that float16 holds no larger values, which inputs of the usual size do not show."""
    if "float16" not in formats:
        return None
    return Unexercised("range of float16", "", f"values beyond {LARGEST_FLOAT16} overflow", differs=True)


def _overflow_text(formats: Sequence[str]) -> str:
    missed = _overflow(formats)
    return f"; not exercised: {missed}" if missed is not None else ""


def both_within(of_a: Comparison, of_b: Comparison) -> Comparison:
    """Return the result for two rounded nets, each of which is the other one but for its own rounding.

    Their outputs differ by no more than both lose against the net without rounding.

    Args:
        of_a: What A loses of the net that it stands for, with the weights of B.
        of_b: What B loses of it, with the weights of A.
    """
    one, other = of_a.precision, of_b.precision
    assert one is not None
    assert other is not None
    latent = Verdict.LATENT in {of_a.verdict, of_b.verdict}
    verdict = Verdict.LATENT if latent else Verdict.EQUAL
    formats = tuple(sorted({*one.formats, *other.formats}))
    both = Precision("A and B", formats, seen=one.seen + other.seen, expected=one.expected + other.expected)
    sentence = (
        f"{verdict.value}: A computes in {one.text} and B in {other.text}, and they stand for the same net: "
        f"rounding changes A's output by {ratio_text(one.seen)} of its rms and B's by "
        f"{ratio_text(other.seen)}, within what they can hold ({ratio_text(one.expected)} and "
        f"{ratio_text(other.expected)}){_overflow_text(formats)}"
    )
    return replace(of_b, verdict=verdict, sentence=sentence, error=both.seen, precision=both)


def _with_loss(group: Group, cost: GroupLoss | None, finding: Finding | None, *, after_fault: bool) -> Group:
    """Return a group with what rounding costs there; one that loses more follows from an earlier fault.

    Where the nets differ by more than rounding, error and values stay those of that difference.
    """
    agrees = group.status in {Status.EQUAL, Status.MAPPED}
    loss = cost.loss if cost is not None else None
    if cost is not None:
        group = replace(group, rounding_error=cost.loss.expected)
        if agrees or group.error is None:
            group = replace(group, error=cost.loss.seen, values=cost.values)
    if finding is not None:
        return replace(group, status=Status.DIFFERENT, finding=finding)
    if loss is None or not agrees:
        return group
    if loss.seen > SLACK * loss.expected + LOCAL_TOLERANCE and after_fault:
        return replace(group, status=Status.PROPAGATED)
    return replace(group, status=Status.MAPPED) if loss.seen > 0 else group

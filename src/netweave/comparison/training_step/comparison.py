"""The comparison of two records of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netweave.comparison.result.comparison import Comparison, Finding
from netweave.comparison.training_step.gradients import GradientCheck
from netweave.comparison.training_step.optimizers import compare_optimizers
from netweave.comparison.training_step.pairing import pair_weights
from netweave.comparison.training_step.record import TrainingRecord
from netweave.comparison.training_step.statistics import compare_statistics
from netweave.errors import UsageError

CONSEQUENCES = {"training-forward", "gradient", "no-gradient", "gradient-scale"}
"""Findings that say nothing new where a norm computes with stored values in one net."""


@dataclass(frozen=True, slots=True)
class TrainingComparison:
    """The result of comparing the first updates of two trainings.

    Attributes:
        a: Name of the first net.
        b: Name of the second net.
        findings: The differences, explained as far as possible; those of the forward pass first, then of
            gradients, moving statistics and the optimizer. A latent one had no effect in these updates.
        num_weights: Weights that were compared.
        num_updates: Updates of the optimizers that were compared; 0 if one of the records has none.
        forward: The comparison of what the nets predict, where they were read from files; None otherwise.
    """

    a: str
    b: str
    findings: tuple[Finding, ...]
    num_weights: int
    num_updates: int
    forward: Comparison | None = None

    @property
    def equal(self) -> bool:
        """True if both learn the same, as far as these updates show, and predict the same."""
        predicts = self.forward is None or self.forward.equal
        return predicts and all(finding.latent for finding in self.findings)

    @property
    def exit_status(self) -> int:
        """0 equal, 1 different; else that of what the nets predict."""
        if any(not finding.latent for finding in self.findings):
            return 1
        return 0 if self.forward is None else self.forward.exit_status

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        shown = [finding for finding in self.findings if not finding.latent]
        if shown:
            more = f", and {len(shown) - 1} more" if len(shown) > 1 else ""
            return f"different in training: {shown[0].cause}{more}"
        compared = f"gradients of {self.num_weights} weights"
        if self.num_updates:
            compared += f" and {self.num_updates} updates"
        latent = len(self.findings)
        but = f"; {latent} difference{'s' * (latent > 1)} without effect in them" if latent else ""
        return f"equal in training: {compared} agree{but}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "sentence": self.sentence,
            "num_weights": self.num_weights,
            "num_updates": self.num_updates,
            "findings": [
                {
                    "mismatch": finding.mismatch,
                    "cause": finding.cause,
                    "fix": finding.fix,
                    "place_a": finding.place_a,
                    "place_b": finding.place_b,
                    "layer_a": finding.layer_a,
                    "layer_b": finding.layer_b,
                    "error": finding.error,
                    "latent": finding.latent,
                }
                for finding in self.findings
            ],
            "forward": self.forward.to_json() if self.forward is not None else None,
        }

    def __repr__(self) -> str:
        return f"TrainingComparison: {self.sentence}"


def compare_training(a: TrainingRecord, b: TrainingRecord) -> TrainingComparison:
    """Compare the first updates of two trainings that start from the same weights, on the same batch.

    Raises:
        UsageError: They do not start from the same weights, or neither has any gradient.
    """
    pairs = pair_weights(a.weights, b.weights, name_a=a.name, name_b=b.name)
    check = GradientCheck(a, b, pairs)
    if all(check.gradients.is_negligible(pair) for pair in pairs):
        raise UsageError(
            f"no gradient reaches any weight of {a.name}, nor of {b.name}, so nothing can be compared; give "
            "a loss that depends on their weights, or let some of them require a gradient"
        )
    statistics = compare_statistics(a, b)
    found = list(check.findings())
    if any(finding.mismatch == "statistics-fixed" for finding in statistics):
        # a norm of stored values gives other outputs, and every gradient is another one
        found = [finding for finding in found if finding.mismatch not in CONSEQUENCES]
    found += statistics
    num_updates = min(len(a.updated), len(b.updated))
    if num_updates:
        found += compare_optimizers(a, b, [pair for pair in pairs if not check.gradients.is_negligible(pair)])
    return TrainingComparison(a.name, b.name, tuple(found), len(pairs), num_updates)

"""Comparisons of trainings as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from netweave.cli.compare_view import show_comparison
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.comparison import Finding
    from netweave.comparison.training_step import TrainingComparison


def show_training_comparison(console: Console, compared: TrainingComparison, *, everything: bool) -> None:
    """Print what nets predict, where they were read, and then how they learn.

    Args:
        console: Where to.
        compared: What was found.
        everything: Show every layer of what they predict, not only those around differences.
    """
    if compared.forward is not None:
        if everything or not compared.forward.equal:
            show_comparison(console, compared.forward, everything=everything)
        else:
            console.print(Text(compared.forward.sentence, style="green"))
        console.print()
    is_equal = all(finding.latent for finding in compared.findings)
    console.print(Text(compared.sentence, style="green" if is_equal else "bold red"))
    for number, finding in enumerate(compared.findings, start=1):
        console.print()
        console.print(_explanation(number, finding))


def _explanation(number: int, finding: Finding) -> Text:
    lines = [f"{number}  {finding.cause}"]
    if finding.latent:
        lines[0] += " (without effect in these updates)"
    places = " / ".join(place for place in (finding.place_a, finding.place_b) if place)
    layers = " / ".join(layer for layer in (finding.layer_a, finding.layer_b) if layer)
    if places or layers:
        lines.append(f"   at {places or layers}")
    if finding.fix:
        lines.append(f"   fix: {finding.fix}")
    if finding.error is not None and 0 < finding.error < float("inf") and finding.error != 1.0:
        lines.append(f"   largest difference: {ratio_text(finding.error)} times the rms")
    return Text("\n".join(lines))

"""Comparisons and fixes as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD, settings_text
from netweave.cli.net_view import heading
from netweave.comparison import (
    Comparison,
    Evidence,
    Finding,
    Group,
    Matrix,
    NetRecord,
    Status,
    TensorMapping,
    Verdict,
)
from netweave.comparison.result.causes import Cause
from netweave.comparison.result.verdict import detail
from netweave.graph import Graph
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.api import FixedPort, Mended
    from netweave.comparison.training_step import TrainingComparison


CONTEXT = 1
"""Groups that are shown before and after one that differs."""

MAX_LISTED = 4
"""Layers of one group that have a line each; more are listed by name only."""

SEPARATOR = 3
"""Columns between two cells."""

MIN_STATUS = 20
"""The narrowest column for the status of a group."""

WIDE = 110
"""Columns from which on the evidence has a column of its own."""


@dataclass(frozen=True, slots=True)
class Look:
    """Appearance of a status: a mark between the two nets, a colour, and whether it may be hidden."""

    mark: str
    style: str
    matters: bool


LOOKS = {
    Status.EQUAL: Look("=", "green", matters=False),
    Status.MAPPED: Look("=", "green", matters=False),
    Status.STRUCTURE: Look("≟", "cyan", matters=False),
    Status.LATENT: Look("~", "yellow", matters=True),
    Status.DIFFERENT: Look("≠", "bold red", matters=True),
    Status.PROPAGATED: Look("~", "yellow", matters=False),
    Status.ONLY_A: Look("<", "red", matters=True),
    Status.ONLY_B: Look(">", "red", matters=True),
    Status.UNKNOWN: Look("?", "magenta", matters=True),
}


def shown_groups(comparison: Comparison, *, everything: bool) -> set[int]:
    """Return which groups are shown: all, or those around differences, of each cause the first place."""
    groups = comparison.groups
    repeated = {
        id(finding) for cause in comparison.causes for finding in cause.findings[cause.num_described :]
    }
    return {
        near
        for index, group in enumerate(groups)
        if everything
        or ((LOOKS[group.status].matters or group.finding) and id(group.finding) not in repeated)
        for near in range(max(index - CONTEXT, 0), min(index + CONTEXT + 1, len(groups)))
    }


def side_by_side(
    console: Console, comparison: Comparison, *, numbers: Mapping[int, int], shown: set[int]
) -> Table:
    """Return the table of groups.

    Args:
        console: Its width decides the form.
        comparison: What was found.
        numbers: Numbers of the explanations, by ``id`` of the finding.
        shown: Which groups have a row; of the others it is said how many they are.
    """
    wide = console.width >= WIDE
    rows = [
        [Text("\n").join(lines) for lines in cells] for cells in _rows(comparison, numbers, shown, wide=wide)
    ]
    heads = [
        f"A  {comparison.a.name}",
        "",
        f"B  {comparison.b.name}",
        "status, error / rms",
        "evidence",
    ]
    columns = range(5 if wide else 4)
    needed = [max(len(heads[index]), *(_width(row[index]) for row in rows), 1) for index in columns]
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    for head, width in zip(heads, _shared_out(needed, console.width), strict=False):
        table.add_column(head, width=width, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _rows(
    comparison: Comparison, numbers: Mapping[int, int], shown: set[int], *, wide: bool
) -> Iterator[list[list[Text]]]:
    """Yield the lines of each cell of each row."""
    groups = comparison.groups
    for hidden, run in groupby(range(len(groups)), key=lambda index: index not in shown):
        members = [groups[index] for index in run]
        if hidden:
            dots = Text("...", style="dim")
            yield [[dots], [], [dots], [Text(_left_out(members), style="dim")], *[[]] * wide]
            continue
        for group in members:
            last = [_status(group, numbers), _evidence(group)]
            yield [
                _layers(comparison.a, group.layers_a, group.nodes_a, group.status),
                [_mark(group)],
                _layers(comparison.b, group.layers_b, group.nodes_b, group.status),
                *(last if wide else [last[0] + _named(last[1])]),
            ]


def _width(cell: Text) -> int:
    return max((line.cell_len for line in cell.split()), default=0)


def _shared_out(needed: Sequence[int], width: int) -> list[int]:
    """Return the widths of the columns: as needed, or what there is, first for the names of the layers."""
    a, mark, b, status, *evidence = needed
    free = width - SEPARATOR * len(needed) - mark - sum(evidence)
    status = min(status, max(free - a - b, free * 2 // 5, MIN_STATUS))
    both = free - status
    a = min(a, max(both - b, both // 2))
    return [a, mark, min(b, both - a), status, *evidence]


def _left_out(groups: Sequence[Group]) -> str:
    counts = Counter(group.status for group in groups)
    return "; ".join(f"{status.value} ({count} group{'s' * (count > 1)})" for status, count in counts.items())


def _mark(group: Group) -> Text:
    look = LOOKS[group.status]
    return Text(look.mark, style=look.style)


def _layers(
    graph: Graph | NetRecord, keys: Sequence[str], nodes: Sequence[str], status: Status
) -> list[Text]:
    layers = [graph.layers[key] for key in keys if key in graph.layers]
    if not layers:
        return [Text(", ".join(nodes), style="dim")]
    if len(layers) > MAX_LISTED:
        return [Text(", ".join(layer.key for layer in layers))]
    lines = []
    for layer in layers:
        lines.append(Text.assemble(layer.key, "  ", (layer.type, "cyan")))
        settings = settings_text(layer.settings)
        if settings and status in {Status.DIFFERENT, Status.LATENT}:
            lines.append(settings)
    return lines


def _status(group: Group, numbers: Mapping[int, int]) -> list[Text]:
    mapping = group.mapping.text if group.mapping else ""
    named = group.status in {Status.MAPPED, Status.STRUCTURE} and mapping
    lines = [Text(f"equal: {mapping}" if named else group.status.value, style=LOOKS[group.status].style)]
    if group.error is not None:
        lines[0].append(f", {_error(group.error)}", style="not bold default")
    if group.rounding_error is not None:
        lines.append(Text(f"rounding explains {ratio_text(group.rounding_error)}", style="dim"))
    if group.status is Status.PROPAGATED and group.isolated_error is not None:
        lines.append(Text(f"given A's inputs: {_error(group.isolated_error)}", style="dim"))
    if mapping and not named:
        lines.append(Text(mapping, style="cyan"))
    if group.finding:
        lines.append(Text(f"see finding {numbers[id(group.finding)]}"))
    return lines


def _error(error: float) -> str:
    return f"error {ratio_text(error)}" if isfinite(error) else "other sizes, or not finite"


def _named(evidence: list[Text]) -> list[Text]:
    """Say what it is, where it has no column of its own."""
    return [Text("evidence: ", style="dim").append_text(line) for line in evidence]


def _evidence(group: Group) -> list[Text]:
    if not group.is_pair:
        return []
    if group.evidence is Evidence.GUESS:
        return [Text("a guess", style="italic yellow")]
    return [Text(group.evidence_text, style="dim")]


RICH_COLOURS = {
    "green": "green",
    "teal": "cyan",
    "orange": "bright_red",
    "blue": "bright_blue",
    "red": "red",
    "yellow": "yellow",
}
"""The colours of verdicts on a terminal, which has few."""


def verdict_style(verdict: Verdict) -> str:
    """Return the style of a verdict on a terminal."""
    return f"bold {RICH_COLOURS[verdict.look.colour]}"


def show_comparison(console: Console, comparison: Comparison, *, everything: bool) -> None:
    """Print a comparison.

    Args:
        console: Where to.
        comparison: What was found.
        everything: Show every group, not only those around differences.
    """
    console.print(Text(comparison.headline, style=verdict_style(comparison.verdict)))
    if more := detail(comparison):
        console.print(Text(more))
    console.print()
    console.print(_facts(comparison))
    causes = comparison.causes
    for number, cause in enumerate(causes, start=1):
        console.print()
        console.print(_explanation(number, cause))
    console.print()
    numbers = {
        id(finding): number for number, cause in enumerate(causes, start=1) for finding in cause.findings
    }
    shown = shown_groups(comparison, everything=everything)
    if shown:
        console.print(side_by_side(console, comparison, numbers=numbers, shown=shown))
    console.print(_tally(comparison))


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
        console.print(_learning_difference(number, finding))


def _learning_difference(number: int, finding: Finding) -> Text:
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


def show_matrix(console: Console, matrix: Matrix) -> None:
    """Print the verdicts of all pairs of several nets, then every pair in a sentence."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold")
    table.add_column("")
    for number, _ in enumerate(matrix.names, start=1):
        table.add_column(str(number), justify="center")
    for i, name in enumerate(matrix.names):
        cells = [_cell(matrix, i, j) for j in range(len(matrix.names))]
        table.add_row(Text(f"{i + 1}  {name}"), *cells)
    console.print(table)
    for (i, j), found in matrix.pairs.items():
        style = verdict_style(found.verdict)
        console.print(Text.assemble(f"{i + 1} - {j + 1}  ", (found.sentence, style)))
    for i, j, k in matrix.contradictions:
        said = f"{i + 1} equals {j + 1} and {j + 1} equals {k + 1}, but {i + 1} differs from {k + 1}"
        console.print(Text(f"these verdicts contradict one another: {said}", style="bold red"))


def _cell(matrix: Matrix, i: int, j: int) -> Text:
    if i == j:
        return Text("-", style="dim")
    verdict = matrix.pairs[min(i, j), max(i, j)].verdict
    return Text(verdict.mark, style=verdict_style(verdict))


def _facts(comparison: Comparison) -> Table:
    grid = _grid()
    grid.add_row("A", heading(comparison.a))
    grid.add_row("B", heading(comparison.b))
    for label, mappings in (("inputs", comparison.inputs), ("outputs", comparison.outputs)):
        if mappings:
            grid.add_row(label, Text("\n").join(map(mapping_text, mappings)))
    if comparison.probes:
        grid.add_row("run on", _listed(comparison.probes))
    if comparison.coverage is not None:
        grid.add_row("exercised", Text(str(comparison.coverage)))
    for note in (*comparison.notes, *_reading_notes(comparison)):
        grid.add_row("note", Text(note, style="yellow"))
    return grid


def _reading_notes(comparison: Comparison) -> Iterable[str]:
    """Yield what the readers noted, such as sizes from elsewhere; a saved comparison has no such notes."""
    for net in (comparison.a, comparison.b):
        if isinstance(net, Graph):
            yield from net.notes


def mapping_text(mapping: TensorMapping) -> Text:
    """Return how a tensor of A becomes its counterpart in B, in one line."""
    if mapping.text:
        return Text.assemble(f"{mapping.a} -> {mapping.b}: ", (mapping.text, "cyan"))
    return Text(mapping.a if mapping.a == mapping.b else f"{mapping.a} -> {mapping.b}")


def _explanation(number: int, cause: Cause) -> Table:
    grid = _grid()
    finding = cause.first
    sides = Text.assemble(
        _place(finding.layer_a, finding.place_a),
        ("  vs  " if finding.layer_a and finding.layer_b else "", "dim"),
        _place(finding.layer_b, finding.place_b),
    )
    grid.add_row(Text(f"finding {number}", style="bold not dim"), sides)
    grid.add_row("cause", Text(cause.text))
    if cause.fix:
        grid.add_row("fix", Text.assemble((cause.fix, "bold green"), _in(finding.place_b)))
    elif not cause.latent:
        grid.add_row(
            "fix", Text("unknown: none of the known mismatches explains the difference", style="yellow")
        )
    grid.add_row("tested", Text(_tested(finding), style="dim"))
    others = [_other_place(finding, other) for other in cause.places[1:]]
    if others:
        grid.add_row("also at", Text("; ".join(others)))
    return grid


def _other_place(first: Finding, other: Finding) -> str:
    place = other.place_b or other.place_a
    is_said = place in {first.place_b, first.place_a}
    return (other.layer_b or other.layer_a) + ("" if is_said else f" ({place})")


def _place(layer: str, place: str) -> Text:
    return Text.assemble((layer, "bold"), (f" ({place})" if place else "", "dim"))


def _in(place: str) -> str:
    return f"  in {place}" if place else ""


def _tested(finding: Finding) -> str:
    """Say how far the layer is off by itself; how far the nets are, the sentence on top says."""
    if finding.mismatch == "preprocessing" and finding.error is not None:
        rest = f"; with the fix alone, the rest changes it by {ratio_text(finding.error_fixed or 0.0)}"
        return f"alone, it changes A's output by {ratio_text(finding.error)} times its rms{rest}"
    if finding.latent:
        return "no effect with these weights and inputs"
    if finding.error is None:
        return "not run; the difference follows from the two files"
    differ = f"differ by up to {ratio_text(finding.error)} times the rms of A's output"
    if not isfinite(finding.error):
        differ = "have different sizes, or are not finite"
    alone = f"given the same inputs, the outputs of the two layers {differ}"
    fixed = finding.error_fixed
    if fixed is None:
        return alone
    agree = f"agree to within {ratio_text(fixed)} of the rms" if fixed else "are identical"
    return f"{alone}. With the fix they {agree}"


def _tally(comparison: Comparison) -> Text:
    groups = comparison.groups
    statuses = Counter(kind.value for kind in Status for group in groups if group.status is kind)
    evidence = Counter(
        g.evidence_text for kind in Evidence for g in groups if g.is_pair and g.evidence is kind
    )
    lines = [
        f"{len(groups)} group{'' if len(groups) == 1 else 's'} of layers: {_counted(statuses)}",
        f"evidence: {_counted(evidence)}",
    ]
    if comparison.seconds:
        lines.append(f"read and compared in {sum(comparison.seconds.values()):.1f} s")
    return Text("\n".join(lines), style="dim")


def _counted(counts: Counter[str]) -> str:
    return "; ".join(f"{text} ({count})" for text, count in counts.items()) or "none"


def _listed(texts: Sequence[str]) -> Text:
    return Text("\n".join(texts))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=len("outputs"))
    grid.add_column(overflow="fold")
    return grid


COULD_NOT_READ = 2
"""Exit status where the mended file cannot be read, as for any other file."""


def show_patch(mended: Mended) -> None:
    """Print changes as a patch on standard output, and on standard error what was not applied."""
    click.echo(mended.diff, nl=False)
    _show_refused(mended)
    if not mended.after and not mended.refused:
        click.echo("nothing is to be fixed", err=True)


def show_fixed(fixed: FixedPort) -> int:
    """Print what was written and the verdict on it; return the exit status."""
    from rich.text import Text

    from netweave.cli.console import output_console

    click.echo(fixed.mended.diff, nl=False)
    _show_refused(fixed.mended)
    applied = len(fixed.mended.applied)
    click.echo(f"{fixed.file}: written with {applied} fix{'' if applied == 1 else 'es'} applied")
    if "," in fixed.name:
        click.echo(f"its weights stay where they are; it is compared again as {fixed.name}")
    if fixed.comparison is None:
        click.echo(f"it cannot be compared: {fixed.problem}", err=True)
        return COULD_NOT_READ
    comparison = fixed.comparison
    output_console().print(
        Text(f"{comparison.verdict.mark} {comparison.sentence}", style=verdict_style(comparison.verdict))
    )
    return comparison.exit_status


def _show_refused(mended: Mended) -> None:
    for refusal in mended.refused:
        layer = refusal.finding.layer_b or refusal.finding.layer_a
        click.echo(f"not applied at {layer}: {refusal.why}", err=True)

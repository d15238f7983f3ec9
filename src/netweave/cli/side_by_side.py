"""Two nets in two columns, in A's order: what differs with what stands around it, or everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD
from netweave.cli.words import settings_text
from netweave.comparison import Evidence, Status
from netweave.graph.wording import ratio_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from netweave.comparison import Comparison, Group, NetRecord
    from netweave.graph import Graph

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
    """Return which groups are shown: all, or those around differences."""
    groups = comparison.groups
    return {
        near
        for index, group in enumerate(groups)
        if everything or LOOKS[group.status].matters or group.finding
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
        lines[0].append(f", error {ratio_text(group.error)}", style="not bold default")
    if group.rounding_error is not None:
        lines.append(Text(f"rounding explains {ratio_text(group.rounding_error)}", style="dim"))
    if group.status is Status.PROPAGATED and group.isolated_error is not None:
        lines.append(Text(f"given A's inputs: error {ratio_text(group.isolated_error)}", style="dim"))
    if mapping and not named:
        lines.append(Text(mapping, style="cyan"))
    if group.finding:
        lines.append(Text(f"see finding {numbers[id(group.finding)]}"))
    return lines


def _named(evidence: list[Text]) -> list[Text]:
    """Say what it is, where it has no column of its own."""
    return [Text("evidence: ", style="dim").append_text(line) for line in evidence]


def _evidence(group: Group) -> list[Text]:
    if not group.is_pair:
        return []
    if group.evidence is Evidence.GUESS:
        return [Text("a guess", style="italic yellow")]
    return [Text(group.evidence_text, style="dim")]

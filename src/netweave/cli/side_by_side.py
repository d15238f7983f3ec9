"""Two nets in two columns, in A's order: what differs with what stands around it, or everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from netweave.cli.words import settings_text
from netweave.compare import Evidence, Status
from netweave.graph.wording import ratio_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from netweave.compare import Comparison, Group
    from netweave.graph import Graph

CONTEXT = 1
"""Groups that are shown before and after one that differs."""

MAX_LISTED = 4
"""Layers of one group that have a line each; more are listed by name only."""

SIDE_WIDTH = 30
"""Columns that are not the names': the mark, the spaces, and how the two stand."""

WIDE = 110
"""Columns from which on the evidence has a column of its own."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a status is shown: a mark between the two nets, a colour, and whether it must not be hidden."""

    mark: str
    style: str
    matters: bool


LOOKS = {
    Status.EQUAL: Look("=", "green", matters=False),
    Status.MAPPED: Look("=", "green", matters=False),
    Status.LATENT: Look("~", "yellow", matters=True),
    Status.DIFFERENT: Look("≠", "bold red", matters=True),
    Status.CARRIED: Look("~", "yellow", matters=False),
    Status.ONLY_A: Look("<", "red", matters=True),
    Status.ONLY_B: Look(">", "red", matters=True),
    Status.UNKNOWN: Look("?", "magenta", matters=True),
}


def side_by_side(
    console: Console, comparison: Comparison, *, numbers: Mapping[int, int], everything: bool
) -> Table:
    """Return the table of groups.

    Args:
        console: Its width decides the form.
        comparison: What was found.
        numbers: Numbers of the explanations, by ``id`` of the finding.
        everything: Show every group, not only those around differences.
    """
    wide, groups = console.width >= WIDE, comparison.groups
    table = _table(console, comparison, wide=wide)
    joint = "\n" if console.is_terminal else "  "
    shown = set(range(len(groups))) if everything else _around_differences(groups)
    for hidden, run in groupby(range(len(groups)), key=lambda index: index not in shown):
        members = [groups[index] for index in run]
        if hidden:
            table.add_row(Text(_left_out(members), style="dim"))
            continue
        for group in members:
            cells = [
                _layers(comparison.a, group.layers_a, group.nodes_a, group.status),
                [_mark(group)],
                _layers(comparison.b, group.layers_b, group.nodes_b, group.status),
                _standing(group, numbers),
                _evidence(group),
            ]
            if not wide:
                cells[-2:] = [cells[-2] + cells[-1]]
            table.add_row(*(Text(joint).join(lines) for lines in cells))
    return table


def _table(console: Console, comparison: Comparison, *, wide: bool) -> Table:
    keys = [len(key) for group in comparison.groups for key in (*group.layers_a, *group.layers_b)]
    room = (console.width - SIDE_WIDTH) // 2
    min_width = min(max(keys, default=0), room)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column(f"A  {comparison.a.name}", min_width=min_width, overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column(f"B  {comparison.b.name}", min_width=min_width, overflow="fold")
    table.add_column("how they stand, error / rms", overflow="fold")
    if wide:
        table.add_column("evidence", overflow="fold")
    return table


def _around_differences(groups: Sequence[Group]) -> set[int]:
    return {
        near
        for index, group in enumerate(groups)
        if LOOKS[group.status].matters
        for near in range(max(index - CONTEXT, 0), min(index + CONTEXT + 1, len(groups)))
    }


def _left_out(groups: Sequence[Group]) -> str:
    counts = Counter(group.status for group in groups)
    return "... " + "; ".join(f"{status.value} {count}" for status, count in counts.items())


def _mark(group: Group) -> Text:
    look = LOOKS[group.status]
    return Text(look.mark, style=look.style)


def _layers(graph: Graph, keys: Sequence[str], nodes: Sequence[str], status: Status) -> list[Text]:
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


def _standing(group: Group, numbers: Mapping[int, int]) -> list[Text]:
    lines = [Text(group.status.value, style=LOOKS[group.status].style)]
    if group.error is not None:
        lines[0].append(f"  {ratio_text(group.error)}", style="not bold default")
    if group.status is Status.CARRIED and group.graft_error is not None:
        lines.append(Text(f"{ratio_text(group.graft_error)} on A's own inputs", style="dim"))
    if group.mapping and group.mapping.text:
        lines.append(Text(group.mapping.text, style="cyan"))
    if group.finding:
        lines.append(Text(f"see {numbers[id(group.finding)]}"))
    return lines


def _evidence(group: Group) -> list[Text]:
    if not (group.nodes_a and group.nodes_b):
        return []
    if group.evidence is Evidence.GUESS:
        return [Text("a guess", style="italic yellow")]
    return [Text(group.evidence.value, style="dim")]

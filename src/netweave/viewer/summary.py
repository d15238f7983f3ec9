"""A comparison in a few lines, for those who act on it: a failing test, a review, an agent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from netweave.comparison import Comparison, Finding, Group, Status
from netweave.comparison.result.causes import Cause
from netweave.errors import shortened
from netweave.files import read_bytes
from netweave.graph.summary import ratio_text

MAX_LINES = 12
"""Lines of a summary at most."""

MAX_LINE = 300
"""Characters of a line: names and texts come from files and may have any length."""

MAX_LISTED = 3
"""Further differences, and things not exercised, that are named."""

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)$")

_WRONG = frozenset({Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B, Status.UNKNOWN})


def place_of(text: str) -> tuple[str, int | None]:
    """Return the file and the line of a place; the line is None where the place has none.

    >>> place_of("port.py:31")
    ('port.py', 31)
    >>> place_of("net.onnx")
    ('net.onnx', None)
    """
    read = _PLACE.match(text)
    return (read["file"], int(read["line"])) if read else (text, None)


def source_line(place: str) -> str:
    """Return the text of the line at a place; empty where it cannot be read."""
    file, line = place_of(place)
    if line is None or not Path(file).is_file():
        return ""
    lines = read_bytes(Path(file)).decode(errors="replace").splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def wrong_groups(comparison: Comparison) -> list[Group]:
    """Return the groups that are wrong themselves, in A's order, the explained ones first."""
    wrong = [group for group in comparison.groups if group.status in _WRONG]
    explained = [group for group in wrong if group.finding]
    return [*explained, *(group for group in wrong if not group.finding)]


def origin_of(comparison: Comparison, group: Group) -> str:
    """Return where the first layer of a group stands, B's if there is one; empty if no file says."""
    for net, keys in ((comparison.b, group.layers_b), (comparison.a, group.layers_a)):
        for key in keys:
            layer = net.layers.get(key)
            if layer is not None and layer.origin is not None:
                return str(layer.origin)
    return ""


def summary_lines(comparison: Comparison, *, command: str = "") -> list[str]:
    """Return a comparison in at most twelve lines: verdict, first wrong place, cause, fix, what is untested.

    Args:
        comparison: The comparison.
        command: What repeats it.
    """
    lines = [line for line in _lines(comparison) if line]
    lines += [f"repeat: {command}"] * bool(command)
    return [shortened(" ".join(line.split()), MAX_LINE) for line in lines[:MAX_LINES]]


def _lines(comparison: Comparison) -> Iterator[str]:
    wrong = wrong_groups(comparison)
    first = wrong[0] if wrong else None
    yield _verdict(comparison, first)
    causes = {id(finding): cause for cause in comparison.causes for finding in cause.findings}
    same: Cause | None = None
    if first is not None and first.finding is not None:
        same = causes[id(first.finding)]
        yield from _explained(same)
    elif first is not None:
        layers = ", ".join((*first.layers_b, *(f"A: {key}" for key in first.layers_a)))
        yield f"first wrong place: {': '.join(filter(None, (origin_of(comparison, first), layers)))}"
        yield "cause: unknown; none of the known mismatches explains it"
    others = [group for group in wrong[1:] if group.finding is None or causes[id(group.finding)] is not same]
    if others:
        names = [", ".join((group.layers_b or group.layers_a)[:1]) for group in others[:MAX_LISTED]]
        more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
        yield f"also wrong: {', '.join(name for name in names if name)}{more}"
    yield _not_exercised(comparison)
    yield from (f"note: {note}" for note in comparison.notes[:2])


def _verdict(comparison: Comparison, first: Group | None) -> str:
    """Return the verdict in a line: the whole sentence, unless the lines below say the rest of it."""
    if first is None or comparison.equal:
        return comparison.sentence.partition("; not exercised: ")[0]
    if comparison.error is None:
        return comparison.verdict.value
    apart = f"the outputs differ by up to {ratio_text(comparison.error)} times their rms"
    return f"{comparison.verdict.value}: {apart}"


def _explained(cause: Cause) -> Iterator[str]:
    finding = cause.first
    place_b = ": ".join(part for part in (finding.place_b, finding.layer_b) if part)
    place_a = ": ".join(part for part in (finding.place_a, finding.layer_a) if part)
    yield f"first wrong place: {place_b or 'nothing in B'}" + (f" (A: {place_a})" if place_a else "")
    line = source_line(finding.place_b)
    yield f"source: {line}" if line else ""
    more = cause.num_alike
    yield f"cause: {cause.text}" + (f"; the same in {more} more layer{'s' * (more > 1)}" if more else "")
    yield f"fix: {cause.fix} ({_tested(finding)})" if cause.fix else "fix: unknown"


def _tested(finding: Finding) -> str:
    if finding.error_fixed is None:
        return "not tested"
    if finding.error_fixed == 0:
        return "tested: the outputs of the layer are then identical"
    return (
        f"tested: the outputs of the layer then agree to within {ratio_text(finding.error_fixed)} of the rms"
    )


def _not_exercised(comparison: Comparison) -> str:
    coverage = comparison.coverage
    if coverage is None:
        return "not exercised: not assessed, since the outputs do not agree"
    if coverage.is_complete:
        return ""
    shown = "; ".join(map(str, coverage.not_exercised[:MAX_LISTED]))
    more = len(coverage.not_exercised) - MAX_LISTED
    return f"not exercised: {shown}" + (f"; {more} more" if more > 0 else "")

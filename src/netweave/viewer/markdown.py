"""A document as Markdown, to paste into an issue: the verdict, what explains it, the layers that differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netweave.graph.summary import ratio_text
from netweave.viewer.page import document_rows

Json = Mapping[str, Any]

MAX_ROWS = 50
"""Rows of a table; an issue is read by people."""

MAX_DIFF_LINES = 200

UNREMARKABLE = frozenset({"EQUAL", "MAPPED", "STRUCTURE"})
"""Statuses of groups that are counted and not listed."""


def document_markdown(document: Json) -> str:
    """Return a document as Markdown.

    Names and texts come from files of strangers: none becomes a heading, a link, a mention or markup.

    Args:
        document: What ``comparison_document`` or ``net_document`` made, in this release or an earlier one.
    """
    read = document_rows(document)
    parts = _comparison(read) if read["kind"] == "comparison" else _net(read)
    return "\n\n".join(part for part in parts if part) + "\n"


def _comparison(document: Json) -> list[str]:
    a, b = document["nets"]
    marks = {row["words"]: row["mark"] for row in document.get("verdicts", ())}
    mark = marks.get(document["verdict"], "")
    return [
        f"### {mark} {_text(document['verdict'])}".replace("###  ", "### "),
        _text(document["sentence"]),
        _table(["", "net", "format", "files", "layers", "parameters"], [_net_row("A", a), _net_row("B", b)]),
        *(_cause(number, cause, document["findings"]) for number, cause in enumerate(_causes(document), 1)),
        _differences(document),
        _list("Inputs", [_mapping(row) for row in document["inputs"]]),
        _list("Outputs", [_mapping(row) for row in document["outputs"]]),
        _list("Notes", [_text(note) for note in document["notes"]]),
        _list("Compared on", [_text(probe) for probe in document["probes"]]),
    ]


def _net(document: Json) -> list[str]:
    (net,) = document["nets"]
    rows = [
        [
            _code(layer["name"]),
            _code(layer["type"]),
            f"{layer['cost']['parameters']:,}" if layer.get("cost") else "",
        ]
        for layer in net["layers"]
    ]
    return [
        f"### {_text(net['name'])}",
        _table(["net", "format", "files", "layers", "parameters"], [_net_row("", net)[1:]]),
        _table(["layer", "type", "parameters"], rows[:MAX_ROWS]),
        _left_out(len(rows)),
        _list("Notes", [_text(note) for note in net["notes"]]),
    ]


def _net_row(letter: str, net: Json) -> list[str]:
    return [
        letter,
        _code(net["name"]),
        _text(net["format"]),
        ", ".join(_code(file) for file in net["files"]),
        f"{len(net['layers']):,}",
        f"{(net.get('totals') or {}).get('parameters', 0):,}",
    ]


def _causes(document: Json) -> Sequence[Json]:
    """Return the findings by cause; in documents of earlier releases each finding is its own."""
    alone = [
        {"text": finding["cause"], "fix": finding["fix"], "findings": [number], "num_described": 1}
        for number, finding in enumerate(document["findings"])
    ]
    causes: Sequence[Json] = document.get("causes", alone)
    return causes


def _cause(number: int, cause: Json, findings: Sequence[Json]) -> str:
    finding = findings[cause["findings"][0]]
    layers = " against ".join(
        _code(layer) + (f" ({_code(place)})" if place else "")
        for layer, place in zip(finding["layers"], finding["places"], strict=True)
        if layer or place
    )
    lines = [f"#### {number}. {layers or 'The nets'}", "", f"- **Cause:** {_text(cause['text'])}"]
    if cause["fix"]:
        lines.append(f"- **Fix:** {_text(cause['fix'])}")
    others = [findings[index]["layers"] for index in cause["findings"][1:]]
    if others:
        lines.append(f"- **Also at:** {', '.join(_code(names[1] or names[0]) for names in others)}")
    if isinstance(finding["error"], int | float):
        lines.append(f"- **Error / rms:** {ratio_text(finding['error'])}")
    if isinstance(finding["error_fixed"], int | float):
        lines.append(f"- **With the fix:** {ratio_text(finding['error_fixed'])}")
    diff = (finding.get("patch") or {}).get("diff", "")
    return "\n".join(lines) + (f"\n\n{_fenced(diff, 'diff')}" if diff else "")


def _differences(document: Json) -> str:
    groups = [group for group in document["groups"] if group["status"] not in UNREMARKABLE]
    count = len(document["groups"]) - len(groups)
    rows = [
        [
            _members(document["nets"][0], group, 0),
            _members(document["nets"][1], group, 1),
            _text(group["status"].lower().replace("_", " ")),
            ratio_text(group["error"]) if isinstance(group["error"], int | float) else "",
        ]
        for group in groups[:MAX_ROWS]
    ]
    agree = f"{count:,} group{'' if count == 1 else 's'} of layers agree{'s' if count == 1 else ''}."
    table = _table(["A", "B", "status", "error / rms"], rows)
    return "\n\n".join(part for part in (agree, table, _left_out(len(groups))) if part)


def _members(net: Json, group: Json, side: int) -> str:
    layers = [net["layers"][number]["name"] for number in group["layers"][side]]
    names = layers or [net["nodes"][number]["name"] for number in group["nodes"][side]]
    shown = ", ".join(_code(name) for name in names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _mapping(row: Json) -> str:
    return f"{_code(row['a'])} → {_code(row['b'])}" + (f": {_text(row['text'])}" if row["text"] else "")


def _left_out(count: int) -> str:
    return f"… and {count - MAX_ROWS:,} more." if count > MAX_ROWS else ""


def _list(title: str, rows: Sequence[str]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {row}" for row in rows) if rows else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(row) for row in rows]
    if not lines:
        return ""
    head = [" | ".join(columns), "|".join("---" for _ in columns)]
    return "\n".join(f"| {line} |" for line in [*head, *lines])


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@!&])")


def _text(value: str) -> str:
    r"""Return words as text in which nothing is markup.

    >>> print(_text("a_b <script> @all [x](y)"))
    a\_b \<script\> \@all \[x\](y)
    """
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def _code(value: str) -> str:
    r"""Return a name in a code span that it cannot leave, nor the cell of a table.

    >>> print(_code("a`b|c"))
    ``a`b\|c``
    """
    name = " ".join(str(value).split()).replace("|", r"\|")
    if not name:
        return ""
    ticks = "`" * (1 + _longest_run(name))
    edge = " " if name[0] == "`" or name[-1] == "`" else ""
    return f"{ticks}{edge}{name}{edge}{ticks}"


def _fenced(text: str, language: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"… and {len(lines) - MAX_DIFF_LINES:,} more lines"]
    fence = "`" * max(3, 1 + _longest_run(text))
    return "\n".join([f"{fence}{language}", *lines, fence])


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)

"""The page of the matrix, from what its last run wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.matrix.nets import COLUMNS, NETS
from benchmarks.matrix.pairs import partner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESULT = Path(__file__).parents[2] / "benchmarks" / "matrix" / "result.json"

Cell = dict[str, Any]

NOT_RUN = {"made, but not read in this run": "not run"}
"""What a cell says that the last run did not get to; it counts as failed."""


def page() -> str:
    """Return the page."""
    result = json.loads(RESULT.read_text())
    cells = result["cells"]
    failed = [cell for cell in cells if not cell["ok"]]
    parts = [
        "# Classic nets by formats",
        "Generated from `benchmarks/matrix/result.json`. This command made its cells, in several runs over "
        "the code of one day, of which the newest outcome of each cell was kept; on "
        f"{result['machine']}, with other work beside it:",
        f"```sh\n{result['command']}\n```",
        WORDS,
        _table(cells),
        f"{_count(cells, 'theirs')} of theirs and {_count(cells, 'ours')} of ours are right; "
        f"{len(failed)} cells of all kinds are not:",
        _list(f"{_name(cell)}: {cell['said']}" for cell in failed),
        "## One net by two frameworks",
        PAIRS,
        _pairs([cell for cell in cells if cell["kind"] == "pair"]),
        _left(cells),
        "## PyTorch code",
        CODE,
        _code([cell for cell in cells if cell["kind"] == "ours" and cell["format"] == "pytorch"]),
        "## Where theirs come from",
        _origins([cell for cell in cells if cell["kind"] == "theirs"]),
    ]
    return "\n\n".join(parts) + "\n"


WORDS = """*Theirs*: the framework itself made, saved and ran the net; Netweave reads the file. *Ours*:
Netweave wrote the file from a net of theirs; the framework itself reads and runs it. The number is the
largest difference from what the framework that the net came from computes, relative to the rms of the
output; up to 1e-4 is right. OpenCV 4.8.1 stands in for Caffe and Darknet. Weights are drawn; images are small
where the net takes any."""

PAIRS = """The weights of the first are carried over to the second (or back), and both are compared. Where the
authors of the two made other nets of one name, Netweave has to find that they differ."""

CODE = """Written by `netweave convert`, run in an environment with torch and NumPy alone. The difference is
that from the graph that it was written from, relative to the largest value; up to 1e-5 is right. Ruff, as it
comes, accepts what is right."""


def _table(cells: Sequence[Cell]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell["kind"] in {"theirs", "ours"}:
            said = f"{cell['error']:.0e}" if cell["ok"] else NOT_RUN.get(cell["said"], "**failed**")
            found.setdefault((cell["net"], cell["format"]), []).append(f"{cell['kind']} {said}")
    rows = [
        f"| {title} | " + " | ".join("<br>".join(found.get((net, key), ["–"])) for key in COLUMNS) + " |"
        for net, title in NETS.items()
    ]
    head = "| | " + " | ".join(column.title for column in COLUMNS.values()) + " |"
    counts = [sum(c["ok"] and c["format"] == key and c["kind"] == "theirs" for c in cells) for key in COLUMNS]
    last = "| theirs, right | " + " | ".join(map(str, counts)) + " |"
    return "\n".join((head, "|---" * (len(COLUMNS) + 1) + "|", *rows, last))


def _pairs(cells: Sequence[Cell]) -> str:
    rows = [
        f"| {NETS[cell['net']]} | {_title(cell['origin'])} | {_title(cell['format'])} | {_verdict(cell)} |"
        for cell in cells
    ]
    equal = sum(cell["ok"] and cell["error"] is not None for cell in cells)
    told = sum(cell["ok"] and cell["error"] is None for cell in cells)
    head = f"{equal} pairs are equal, {told} are other nets, {len(cells) - equal - told} are neither."
    return "\n".join((head, "", "| net | first | second | |", "|---|---|---|---|", *rows))


def _left(cells: Sequence[Cell]) -> str:
    """Return which pairs the last run did not get to."""
    done = {(cell["net"], cell["format"]) for cell in cells if cell["kind"] == "pair"}
    left = []
    for net, title in NETS.items():
        made = [cell["format"] for cell in cells if cell["kind"] == "theirs" and cell["net"] == net]
        pairs = {key: partner(net, key, made) for key in made if (net, key) not in done}
        left += [f"{title} ({_title(a)}, {_title(b)})" for b, a in pairs.items() if a is not None]
    return f"Not run: {'; '.join(left)}." if left else "None was left out."


def _verdict(cell: Cell) -> str:
    if not cell["ok"]:
        return f"**{cell['said']}**"
    return cell["said"] if cell["error"] is not None else f"other nets: {cell['said']}"


def _code(cells: Sequence[Cell]) -> str:
    rows = [
        f"| {NETS[cell['net']]} | {_title(cell['origin'])} | {cell['facts'].get('lines', '')} | "
        + (f"{cell['facts']['from_graph']:.0e}" if cell["ok"] else f"**{cell['said']}**")
        + " |"
        for cell in cells
    ]
    return "\n".join(("| net | from | lines | difference |", "|---|---|---|---|", *rows))


def _origins(cells: Sequence[Cell]) -> str:
    rows = [f"| {NETS[cell['net']]} | {_title(cell['format'])} | {cell['origin']} |" for cell in cells]
    return "\n".join(("| net | format | made by |", "|---|---|---|", *rows))


def _count(cells: Sequence[Cell], kind: str) -> int:
    return sum(cell["kind"] == kind and cell["ok"] for cell in cells)


def _name(cell: Cell) -> str:
    return f"{NETS[cell['net']]}, {_title(cell['format'])}, {cell['kind']}"


def _title(key: str) -> str:
    return COLUMNS[key].title if key in COLUMNS else key


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)

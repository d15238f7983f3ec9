"""The page of the matrix, from what its last run wrote."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.matrix.nets import COLUMNS, NETS
from benchmarks.matrix.pairs import partner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESULT = Path(__file__).parents[2] / "benchmarks" / "matrix" / "result.json"

Cell = dict[str, Any]


def _wrapped(command: str) -> str:
    """Return a command on lines that a page can show."""
    return " \\\n    ".join(textwrap.wrap(command, 116, break_long_words=False, break_on_hyphens=False))


def page() -> str:
    """Return the page."""
    result = json.loads(RESULT.read_text())
    cells = result["cells"]
    refused = [cell for cell in cells if cell["facts"].get("refused")]
    failed = [cell for cell in cells if not cell["ok"] and cell not in refused]
    parts = [
        "# Classic nets by formats",
        f"Generated from `benchmarks/matrix/result.json`. This command computed its cells {_states(cells)}, "
        "on "
        f"{result['about']['machine']['cores']} cores, no GPU, with other work beside it:",
        f"```sh\n{_wrapped(result['about']['command'])}\n```",
        WORDS,
        _table(cells),
        f"{_count(cells, 'theirs')} of theirs and {_count(cells, 'ours')} of ours are correct. "
        f"{len(refused)} are not supported, for these reasons:",
        _list(f"{_name(cell)}: {cell['said']}" for cell in refused),
        _failures(failed),
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


WORDS = """*Theirs*: the framework itself created, saved and ran the net; Netweave reads the file. *Ours*:
Netweave wrote the file from such a net; the framework itself reads and runs it. The number is the largest
difference from the outputs of the net's original framework, relative to the rms of the output; up to 1e-4
counts as correct. OpenCV 4.8.1 replaces Caffe and Darknet. Weights are random, and images are small where the
net allows any size. SINGA has no column, because no program runs its nets any more except a [transcription of
its C++](decisions/0100-singa.md) by the authors of the reader."""

PAIRS = """The weights of the first are carried over to the second (or back), and both are compared. Where the
authors of the two made other nets of one name, Netweave has to find that they differ; what was changed is
known from a table, what Netweave said stands beside it. Nets that are the same form a star: each is compared
with the first of them. That settles any two: nets that agree with the first to `a` and `b` agree with each
other to `a + b` on the same inputs, by the mapping of the one and then that of the other."""

CODE = """Written by `netweave convert`, run in an environment with torch and NumPy alone. The difference is
that from the graph that it was written from, run on PyTorch's kernels as well, relative to the rms, or as it
is where the output is probabilities; up to 1e-5 is right. Ruff accepts what is right: its default rules, and
lines of 110 characters as in this project."""


def _table(cells: Sequence[Cell]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell["kind"] in {"theirs", "ours"}:
            wrong = "refused" if cell["facts"].get("refused") else "**failed**"
            said = f"{cell['error']:.0e}" if cell["ok"] else wrong
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
    if cell["error"] is not None:
        return cell["said"]
    return f"other nets: {cell['said']}. Netweave: {cell['facts']['netweave']}"


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


def _states(cells: Sequence[Cell]) -> str:
    """Return of which state of the code the cells are, in words."""
    commits = [cell.get("commit", "earlier ones") for cell in cells]
    if len(set(commits)) == 1:
        return f"from one state of the code, `{commits[0]}`"
    counts = [f"{commits.count(commit)} from `{commit}`" for commit in dict.fromkeys(commits)]
    return f"from several states of the code ({', '.join(counts)})"


def _failures(cells: Sequence[Cell]) -> str:
    if not cells:
        return "None of the others failed."
    return f"{len(cells)} failed:\n\n" + _list(f"{_name(cell)}: {cell['said']}" for cell in cells)


def _count(cells: Sequence[Cell], kind: str) -> int:
    return sum(cell["kind"] == kind and cell["ok"] for cell in cells)


def _name(cell: Cell) -> str:
    return f"{NETS[cell['net']]}, {_title(cell['format'])}, {cell['kind']}"


def _title(key: str) -> str:
    return COLUMNS[key].title if key in COLUMNS else key


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)

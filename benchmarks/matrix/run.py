r"""The matrix: classic nets by formats, read, written, carried over, and as code of PyTorch.

::

    python -m benchmarks matrix --files FOLDER --oracles PYTHON --tensorflow PYTHON --torch PYTHON \
        --corpus CORPUS --sources SOURCES [--net NET] [--format FORMAT] [--part theirs] [--json FILE]

A cell is *theirs* if the framework itself made, saved and ran the net, *ours* if Netweave wrote the file and
the framework read it back; its reference is what the framework computes. The files are made when first needed
(some 10 GB in FOLDER), and outcomes are kept there by content. Exit status 1 if a cell failed.

PYTHON of ``--oracles`` has MXNet, OpenCV and Chainer (``tests/oracles/setup``), of ``--tensorflow`` TF
2.21 and tf-slim, of ``--torch`` torch and torchvision. SOURCES is a folder of clones of other people's work;
what misses is cloned.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.matrix import ours, pairs, theirs
from benchmarks.matrix.cells import ROOT, Cell, Kept
from benchmarks.matrix.nets import COLUMNS, NETS, Column
from benchmarks.record import Namespace, Record, commit, option
from netweave.formats import FORMATS


def cells_of_theirs(asked: Namespace, kept: Kept) -> Iterator[Cell]:
    """Yield the half of the matrix that the frameworks themselves made."""
    for net, format_ in asked.cells:
        head = {"net": net, "format": format_, "kind": "theirs", "origin": ""}
        try:
            their = asked.made(net, format_)
        except ValueError as error:
            yield Cell(**head, ok=False, said=str(error))
            continue
        if their is not None:
            head["origin"] = f"{their.record['framework']}: {their.record['source']}"
            yield kept(head, [*their.read, Path(theirs.__file__)], partial(theirs.check, their))


def cells_of_ours(asked: Namespace, kept: Kept) -> Iterator[Cell]:
    """Yield the half of the matrix that Netweave writes."""
    for net, format_ in asked.cells:
        column = COLUMNS[format_]
        if column.judge and is_written(column):
            source = ours.source(net, format_, asked.found)
            if source is not None:
                head = {"net": net, "format": format_, "kind": "ours", "origin": source.format}
                work = partial(ours.check, source, format_, asked.judges[column.judge])
                read = [*source.read, *map(Path, (theirs.__file__, ours.__file__, ours.READING))]
                yield kept(head, read, work)


def cells_of_pairs(asked: Namespace, kept: Kept) -> Iterator[Cell]:
    """Yield pairs of one net by two frameworks."""
    for net in asked.net:
        made = {format_: their for format_ in COLUMNS if (their := asked.found(net, format_)) is not None}
        loads = {format_: cache(their.load) for format_, their in made.items()}  # the first is read once
        for format_ in asked.format:
            other = pairs.partner(net, format_, list(made)) if format_ in made else None
            if other is not None:
                head = {"net": net, "format": format_, "kind": "pair", "origin": other}
                read = [*made[other].read, *made[format_].read, *map(Path, (theirs.__file__, pairs.__file__))]
                changed = pairs.difference(net, other, format_)
                work = partial(pairs.check, loads[other], made[format_], changed=changed)
                yield as_known(kept(head, read, work), changed)


OTHER_FOLDERS = re.compile(r"(?<![\w.-])/(?:[\w.-]+/)+(?=[\w.-]+\.(?:py|onnx)\b)")
"""Folders of the machine in front of files that are not the matrix's own."""


def as_known(cell: Cell, others: str | None) -> Cell:
    """Return the outcome of a pair that is known to be two nets: right if Netweave found that they differ."""
    if others is None:
        return cell
    facts = {**cell.facts, "others": others, "netweave": cell.said}
    return replace(cell, ok=not cell.ok, said=others, facts=facts)


def is_written(column: Column) -> bool:
    """Whether Netweave writes files of a format."""
    ending = column.suffix or ""
    return any(
        row.written and ending.endswith(row.written) and column.to in {None, row.name} for row in FORMATS
    )


PARTS = {"theirs": cells_of_theirs, "ours": cells_of_ours, "pairs": cells_of_pairs}


OPTIONS = (
    option("--files", type=Path, required=True, help="where the nets are made, and outcomes kept"),
    option("--oracles", default=sys.executable, help="a Python with MXNet, OpenCV and Chainer"),
    option("--tensorflow", default=sys.executable, help="a Python with TensorFlow 2.21"),
    option("--torch", default=sys.executable, help="a Python with torch and torchvision"),
    option("--alone", default=sys.executable, help="a Python with torch and NumPy alone"),
    option("--corpus", type=Path, help="the corpus, for Caffe's nets"),
    option("--sources", type=Path, help="a folder of clones; FILES/sources by default"),
    option("--net", choices=NETS, nargs="+", default=list(NETS)),
    option("--format", choices=COLUMNS, nargs="+", default=list(COLUMNS)),
    option("--part", choices=PARTS, nargs="+", default=list(PARTS)),
)


def prepare(options: Namespace) -> None:
    """Add to the options what follows from them."""
    options.cells = [(net, format_) for net in options.net for format_ in options.format]
    options.pythons = {name: getattr(options, name) for name in ("oracles", "tensorflow", "torch")}
    options.judges = {
        "ONNX Runtime": sys.executable,
        "PyTorch": options.alone,
        "Keras": options.tensorflow,
        "MXNet": options.oracles,
        "OpenCV": options.oracles,
    }
    options.more = ["--sources", str(options.sources or options.files / "sources")]
    options.more += ["--corpus", str(options.corpus)] if options.corpus else []
    options.made = lambda net, format_: theirs.made(
        net, format_, options.files, options.pythons, options.more
    )
    options.found = partial(found, options)


def found(asked: Namespace, net: str, format_: str) -> theirs.Their | None:
    """Return a framework's own net; None if there is none, or it could not be made, as its own cell says."""
    with contextlib.suppress(ValueError):
        return asked.made(net, format_)
    return None


def merged(asked: Namespace, cells: list[Cell], record: Record) -> dict[str, Any]:
    """Return outcomes over those of the same cells, with others as they were, without folders."""
    fresh = [asdict(cell) | {"commit": commit()} for cell in cells]
    before = record.results.get("cells", [])
    rows = {(cell["kind"], cell["net"], cell["format"]): cell for cell in (*before, *fresh)}
    nets, formats = list(NETS), list(COLUMNS)
    ordered = sorted(
        rows.values(), key=lambda c: (nets.index(c["net"]), formats.index(c["format"]), c["kind"])
    )
    text = json.dumps({"cells": ordered}).replace(f"{asked.files}/", "").replace(f"{ROOT}/", "")
    found: dict[str, Any] = json.loads(OTHER_FOLDERS.sub("", text))
    return found


def main(options: Namespace, record: Record) -> None:
    """Do what was asked for, and print it."""
    prepare(options)
    console = Console(soft_wrap=True)
    kept, cells = Kept(options.files / "outcomes"), []
    for part in options.part:
        for cell in PARTS[part](options, kept):
            cells.append(cell)
            error = "" if cell.error is None else f"{cell.error:.1e}"
            mark = "[green]ok[/]" if cell.ok else "[red]FAILED[/]"
            console.print(
                f"{mark} {cell.kind:6} {cell.net:13} {cell.format:10} {error:8} {cell.said}", highlight=False
            )
    failed = sum(not cell.ok for cell in cells)
    console.print(f"{len(cells)} cells, {failed} failed")
    record.save(merged(options, cells, record))
    sys.exit(1 if failed else 0)

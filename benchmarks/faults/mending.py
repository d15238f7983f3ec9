"""Apply the fixes that ``netweave.compare`` proposes for planted faults, and count the pairs that are equal.

::

    python -m benchmarks faults.mending --corpus CORPUS [--folder FOLDER] [--only caffe-]

Every fault that was planted in a text is compared with the net itself. Its fix is in the text if one is
proposed that is not about stored arrays; ``mended`` are those whose pair is equal after the fixes were
applied and the files were read again. Nets of Caffe and Darknet need nothing else; those of MXNet what
``python -m benchmarks faults --prepare`` wrote. Formats that a run leaves out keep their counts.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import netweave
from benchmarks.faults import caffe_faults, darknet_faults, mxnet_faults
from benchmarks.record import Namespace, Record, option
from netweave.comparison.fixes import mend
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from benchmarks.faults.model import Fault, Net, Subject
    from netweave.api import Comparison
    from netweave.comparison import Finding
    from netweave.comparison.fixes import Mended


OF_ARRAYS = ("values", "bias", "gamma", "statistics", "columns")
"""Words of a fix that is in the stored arrays."""


OPTIONS = (
    option("--corpus", type=Path, required=True),
    option("--folder", type=Path, help="the folder of the benchmark faults"),
    option("--only", default="", help="nets whose name holds this"),
)


def main(options: Namespace, record: Record) -> None:
    """Run what the command line asks for."""
    by_format: dict[str, Counter[str]] = {}
    for subject in subjects(options.corpus, options.folder, options.only):
        with tempfile.TemporaryDirectory() as folder:
            counts = of_subject(subject, Path(folder))
        by_format.setdefault(subject.name.partition("-")[0], Counter()).update(counts)
        print(f"{subject.name}: {dict(counts)}", flush=True)
    kept = record.results.get("by_format", {})
    by_format = {name: Counter(counts) for name, counts in kept.items()} | by_format
    everything = sum(by_format.values(), Counter())
    print(f"all: {dict(everything)}")
    record.save({"totals": everything, "by_format": dict(sorted(by_format.items()))})


def subjects(corpus: Path, folder: Path | None, only: str) -> Iterator[Subject]:
    """Yield the nets, those of MXNet only with the folder in which their arrays are."""

    def wanted(name: str) -> bool:
        return only in name

    yield from caffe_faults.subjects(corpus, wanted)
    yield from darknet_faults.subjects(wanted)
    if folder is not None:
        yield from mxnet_faults.subjects(corpus, folder / "zoo", wanted)


def of_subject(subject: Subject, folder: Path) -> Counter[str]:
    """Count what becomes of a net's faults."""
    right = load(subject.net, folder / "right")
    counts: Counter[str] = Counter()
    for number, fault in enumerate(subject.faults):
        if text_of(fault.net) == text_of(subject.net):
            counts["planted in stored arrays"] += 1
        else:
            counts[outcome(right, fault, folder / f"fault{number}")] += 1
    return counts


def text_of(net: Net) -> bytes:
    """Return the file in which a net is written."""
    return net.files[next(iter(net.files))]


def outcome(right: netweave.Graph, fault: Fault, folder: Path) -> str:
    """Return what becomes of a fault in a text: ``mended``, ``unreadable``, or why it does not count."""
    try:
        found = netweave.compare(right, load(fault.net, folder))
    except NetweaveError:
        return "cannot be read or run"
    if found.equal:
        return "without effect"
    fixable = [f for f in found.findings if f.fix and not f.latent and not of_arrays(f)]
    if not fixable:
        print(f"no fix: {fault.kind} at {fault.layer}: {found.sentence}", flush=True)
        return "fix in stored arrays, or none"
    mended = mend(found)
    if not mended.after:
        print(f"not applied: {fault.kind} at {fault.layer}: {mended.refused[0].why}", flush=True)
        return "not applied"
    return again(right, fault, found, mended)


def again(right: netweave.Graph, fault: Fault, found: Comparison, mended: Mended) -> str:
    """Write the mended texts over the faulty ones, and compare."""
    for file, text in mended.after.items():
        Path(file).write_text(text, encoding="utf-8")
    try:
        after = netweave.compare(right, load(fault.net, Path(found.b.files[0]).parent, write=False))
    except NetweaveError as error:
        print(f"unreadable: {fault.kind} at {fault.layer}: {error}\n{mended.diff}", flush=True)
        return "unreadable"
    if not after.equal:
        print(f"not equal: {fault.kind} at {fault.layer}: {after.sentence}\n{mended.diff}", flush=True)
    return "mended" if after.equal else "not equal"


def of_arrays(finding: Finding) -> bool:
    """Whether a fix is in the stored arrays alone; a setting may be called after one (``fix_gamma``)."""
    return not finding.edits and any(word in finding.fix for word in OF_ARRAYS)


def load(net: Net, folder: Path, *, write: bool = True) -> netweave.Graph:
    """Read a net from its files."""
    if write:
        net.write(folder)
    file, *weights = (folder / name for name in net.files)
    sizes = None if net.format == "darknet" else {name: (1, *shape) for name, shape in net.inputs.items()}
    return netweave.load(file, weights[0] if weights else None, input_shapes=sizes)

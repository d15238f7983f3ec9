"""What reading gives for every file of SINGA's in the corpus: ``corpus.tsv``, and how its rows are made.

A row is a file, what it is read as (a phase, or ``job``), the sizes that are given (or ``-``), and the
outcome: counts and outputs, rule and phases, or the error. Nets of 0.1 do not say the sizes of their records.
``NETWEAVE_CORPUS=... python -m tests.formats.singa.corpus_table`` writes it anew; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import netweave
from netweave.errors import NetweaveError, SourceError
from netweave.files import Source
from netweave.formats.registry import read

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.job import Job

TABLE = Path(__file__).with_name("corpus.tsv")

SIZES = {"mnist": (64, 1, 28, 28), "rgb": (64, 3, 32, 32)}
"""Sizes of the records of the data sets, by the name of the layer that gives them."""


def rows() -> list[list[str]]:
    """Return the rows of the table: file, what it is read as, sizes, outcome."""
    return [line.split("\t") for line in TABLE.read_text().splitlines()]


def files(corpus: Path) -> list[str]:
    """Return the files that have rows."""
    return sorted(str(path.relative_to(corpus)) for path in corpus.glob("singa/**/*.conf"))


def outcome(corpus: Path, name: str, kind: str, given: str) -> str:
    """Return what reading a file gives, in words."""
    shapes = {} if given == "-" else {given: SIZES[given]}
    try:
        if kind == "job":
            return job_summary(netweave.load_job(corpus / name, input_shapes=shapes))
        return summary(read(Source(corpus / name, phase=kind, input_shapes=shapes)))
    except NetweaveError as error:
        return f"{type(error).__name__}: {error}".replace(f"{corpus}/", "").partition(". It reads ")[0]


def summary(graph: Graph) -> str:
    """Return counts and outputs of a net in words."""
    outputs = [f"{value.name}{value.shape}" for value in graph.outputs]
    shown = outputs if len(outputs) < 6 else [*outputs[:2], f"... {len(outputs)} outputs"]
    return f"{len(graph.layers)} layers, {graph.num_parameters:,} parameters: {', '.join(shown)}"


def job_summary(job: Job) -> str:
    """Return the algorithm, the rule, the policy and the phases of a Job in words."""
    phases = (
        f"{name} ({len(phase.graph.layers)} layers"
        + "".join(f", {source.kind} {source.batch_size}" for source in phase.data)
        + (f" x {phase.num_batches}" if phase.num_batches else "")
        + f"; {len(phase.losses)} losses)"
        for name, phase in job.phases.items()
    )
    return f"{job.algorithm}, {job.solver.kind}, {job.solver.policy.kind}: {', '.join(phases)}"


def needed(corpus: Path, name: str) -> str:
    """Return the input whose sizes a file does not say; ``-`` if there is none."""
    try:
        read(Source(corpus / name))
    except SourceError as error:
        return error.open_inputs[0] if error.open_inputs else "-"
    return "-"


def main(corpus: Path) -> None:
    """Write the table: as the file is, and with sizes where it asks for them."""
    lines = []
    for name in files(corpus):
        given = needed(corpus, name)
        if given != "-":
            lines.append(f"{name}\tTEST\t-\t{outcome(corpus, name, 'TEST', '-')}\n")
        lines += [
            f"{name}\t{kind}\t{given}\t{outcome(corpus, name, kind, given)}\n"
            for kind in ("TEST", "TRAIN", "job")
        ]
    TABLE.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(os.environ["NETWEAVE_CORPUS"]))

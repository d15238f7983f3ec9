"""What reading gives for every solver of the corpus: ``solvers.tsv``, and how its rows are made.

The corpus keeps the files of a folder flat (``examples__mnist__lenet_solver.prototxt``); they are laid out
again first, since solvers name their nets. Sizes of records are those of the data sets.
``NETWEAVE_CORPUS=... python -m tests.formats.caffe.solvers`` writes the table anew; read the difference.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import NetweaveError
from netweave.formats.caffe.job import read_solver
from netweave.training.data.probe import probe

if TYPE_CHECKING:
    from netweave.job import DataSource, Job

TABLE = Path(__file__).with_name("solvers.tsv")

SIZES = {"siamese": (2, 28, 28), "mnist": (1, 28, 28), "cifar": (3, 32, 32), "hdf5": (4,)}
"""Sizes of a record by what the name of its file has in it."""


def lay_out(corpus: Path, folder: Path) -> list[str]:
    """Copy all texts of the corpus into a folder under their own paths; return those of the solvers."""
    solvers = []
    for file in corpus.rglob("*.prototxt"):
        inside = file.relative_to(corpus)
        target = folder / inside.parent / file.name.replace("__", "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
        if "solver" in target.name:
            solvers.append(str(target.relative_to(folder)))
    return sorted(solvers)


def sizes(source: DataSource) -> dict[str, tuple[int, ...]]:
    """Return the sizes of a batch of a data set."""
    if source.kind == "filled":
        return probe(source)
    if source.kind == "annotated_lmdb":
        resize = next(row for row in source.transforms if row["kind"] == "resize")
        image, label = source.outputs
        size = (source.batch_size, 3, resize["height"], resize["width"])
        return {image: size, label: (1, 1, 8 * source.batch_size, 8)}
    path = str(source.settings["path"])
    crop = next((row["height"] for row in source.transforms if row["kind"] == "crop"), 227)
    record = next((size for name, size in SIZES.items() if name in path), (3, crop, crop))
    return {source.outputs[0]: (source.batch_size, *record)}


def outcome(folder: Path, name: str) -> str:
    """Return what reading a solver gives, in words."""
    try:
        return summary(read_solver(folder / name, probe=sizes))
    except NetweaveError as error:
        return f"{type(error).__name__}: {error}".replace(f"{folder}/", "")


def summary(job: Job) -> str:
    """Return the rule, the policy and the phases of a Job in words."""
    phases = (
        f"{name} ({len(phase.graph.layers)} layers, {phase.data[0].kind} {phase.data[0].batch_size}"
        + (f" x {phase.num_batches}" if phase.num_batches else "")
        + f"; {', '.join(f'{weight:g} {loss}' for loss, weight in phase.losses.items()) or 'no loss'})"
        for name, phase in job.phases.items()
    )
    return f"{job.solver.kind}, {job.solver.policy.kind}: {', '.join(phases)}"


def main(corpus: Path) -> None:
    """Write the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [f"{solver}\t{outcome(folder, solver)}\n" for solver in lay_out(corpus, folder)]
    TABLE.write_text("".join(rows))


if __name__ == "__main__":
    main(Path(os.environ["NETWEAVE_CORPUS"]))

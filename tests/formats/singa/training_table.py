"""Every file of SINGA's in the corpus, trained for some steps or refused: ``training.tsv``.

Layers with the most units have 70, so that a step takes little time. Records are random numbers,
two in a batch; what a ``checkpoint_path`` would give is drawn. A row is a file and the outcome: what was
trained, and what one device does otherwise than the file asks for; or the exact error.
``NETWEAVE_CORPUS=... python -m tests.formats.singa.training_table`` writes it anew; read the difference.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import netweave
from netweave.errors import NetweaveError
from netweave.training import Updated
from tests.formats.singa.corpus_table import SIZES, files, needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.job import Job, Phase

TABLE = Path(__file__).with_name("training.tsv")

STEPS, BATCH = 3, 2


def rows() -> list[list[str]]:
    """Return the rows of the table: file, outcome."""
    return [line.split("\t") for line in TABLE.read_text().splitlines()]


def outcome(corpus: Path, name: str, folder: Path) -> str:
    """Train a file for some steps; return what happened, in words."""
    given = needed(corpus, name)
    shapes = {} if given == "-" else {given: SIZES[given]}
    text = re.sub(
        r"(num_output|dim_hidden): (4096|2500|2000|1500|512)\b", r"\1: 70", (corpus / name).read_text()
    )
    text = re.sub(r"(?m)^checkpoint_path:.*$", "", text)
    text = re.sub(r"(param *\{\s*name: \"\w+\"\s*)\}", r"\1 init { type: kGaussian std: 0.1 } }", text)
    path = folder / Path(name).name
    path.write_text(text)
    try:
        job = shortened(netweave.load_job(path, input_shapes=shapes), folder)
        losses = []
        netweave.train(
            job,
            data={
                phase: arrays(one) for phase, one in job.running.items() if one.data[0].kind != "characters"
            },
            seed=1,
            watch=lambda event: losses.append(event.loss) if isinstance(event, Updated) else None,
        )
    except NetweaveError as error:
        return f"{type(error).__name__}: {error}".replace(str(path), name).partition(". It reads ")[0]
    assert len(losses) == STEPS
    assert np.isfinite(losses).all()
    kinds = f"{job.algorithm}, {job.solver.kind}, {job.solver.policy.kind}"
    notes = "".join(f"; note: {note}" for note in job.notes)
    return f"trained for {STEPS} steps by {kinds}: {', '.join(job.running)}{notes}"


def shortened(job: Job, folder: Path) -> Job:
    """Return a job with few steps and small batches, tests in the middle, and its files in a folder."""
    phases = {
        name: replace(
            phase,
            data=tuple(
                replace(source, batch_size=BATCH, settings=small_text(source.settings, folder))
                for source in phase.data
            ),
            num_batches=None if phase.num_batches is None else 1,
        )
        for name, phase in job.phases.items()
    }
    schedule = replace(job.schedule, max_iterations=STEPS, test_interval=2 if job.tests else 0)
    checkpoints = replace(job.checkpoints, prefix=str(folder / "step"), interval=0, at_end=False)
    return replace(job, phases=phases, schedule=schedule, checkpoints=checkpoints)


def small_text(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the settings of a source of characters with a text that is there; others as they are."""
    if "vocab_path" not in settings:
        return dict(settings)
    vocabulary = "".join(map(chr, range(32, 32 + 101)))
    (folder / "vocab.txt").write_text(vocabulary)
    (folder / "text.txt").write_text(vocabulary * 5)
    paths = {"path": str(folder / "text.txt"), "vocab_path": str(folder / "vocab.txt")}
    return {**settings, **paths, "batchsize": BATCH}


def arrays(phase: Phase) -> dict[str, np.ndarray]:
    """Return random records for each input of a phase's graph; labels are 0 and 1."""
    generator = np.random.default_rng(0)
    found = {}
    for value in phase.graph.inputs:
        shape = (7, *value.shape[1:])
        found[value.name] = (
            generator.normal(size=shape) if len(shape) > 1 else generator.integers(2, size=7).astype(float)
        )
    return found


def main(corpus: Path) -> None:
    """Write the table."""
    lines = []
    for name in files(corpus):
        with tempfile.TemporaryDirectory() as folder:
            lines.append(f"{name}\t{outcome(corpus, name, Path(folder))}\n")
    TABLE.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(os.environ["NETWEAVE_CORPUS"]))

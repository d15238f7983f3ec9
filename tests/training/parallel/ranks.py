"""Runs on several ranks for tests: a list of cases, all in one start of the processes.

``python -m tests.training.parallel.ranks FOLDER CASES`` is one rank; CASES is JSON. The first rank leaves the
arrays of each case in FOLDER.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from netweave.graph.passes.partition import LayerCut
from netweave.job import Cluster
from netweave.runtime.engine import ThreadedEngine
from netweave.training.events import Event, Shown, Updated
from netweave.training.net_passes import DTYPES
from netweave.training.parallel.launcher import Launcher
from netweave.training.parallel.world import World, join
from tests.training.parallel import nets
from tests.training.trainers import make_trainer


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes:
        name: Of its results.
        net: Of ``nets.NETS``.
        exchange: How ranks exchange.
        compression: What they send.
        solver: Further settings of the solver.
        steps: Updates.
        stages: Stages of the net.
        slice_elements: Of a slice.
        snapshot: Updates between two checkpoints.
        resume: Name of a checkpoint to go on from, in the case's folder.
        folder: Folder of files; the name by default.
        dtype: Type of the numbers.
        sync_batch_norm: Whether batch normalisation looks at the whole batch.
        base_lr: The rate of the solver.
        momentum: Of the solver.
        threshold: What a 2-bit code stands for, if they are sent.
        same_bits: Shards of a batch, if it has shards.
        cuts: Layers that are not cut by batch: ``ip1=feature conv1=0 pool1=rows conv2=2x2``, where a number
            is a worker.
        micro_batches: Parts of a batch in a pipeline of ranks.
        pipeline: Order of its passes.
        batches: Batches of an update, each a part of the net's batch; for a process alone.
    """

    name: str
    net: str = "mlp"
    exchange: str = "overlapped"
    compression: str = "none"
    solver: str = ""
    steps: int = 20
    stages: int = 3
    slice_elements: int = 128
    snapshot: int = 0
    resume: str = ""
    folder: str = ""
    dtype: str = "float64"
    sync_batch_norm: bool = True
    base_lr: float = 0.05
    momentum: float = 0.9
    threshold: float | None = None
    same_bits: int | None = None
    cuts: str = ""
    micro_batches: int | None = None
    pipeline: str = "1f1b"
    batches: int = 1


def train(case: Case, folder: Path, world: World | None) -> dict[str, np.ndarray]:
    """Train; return all arrays, the losses of updates, and those that were shown."""
    place = folder / (case.folder or case.name)
    if world is None or world.is_first:
        nets.write(
            place,
            case.net,
            steps=case.steps,
            solver=case.solver,
            snapshot=case.snapshot,
            base_lr=case.base_lr,
            momentum=case.momentum,
            batches=case.batches,
        )
    if world is not None:
        world.barrier()
    job = nets.job(place / "solver.prototxt")
    if "display" in case.solver:
        job = replace(job, schedule=replace(job.schedule, display_at_end=True))
    if world is not None and case.cuts:
        cluster = Cluster(workers_per_group=world.size, layers=cuts_of(case.cuts))
        job = replace(job, cluster=cluster)
    losses: list[float] = []
    shown: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Updated):
            losses.append(event.loss)
        elif isinstance(event, Shown):
            shown.append(event.loss)

    dtype = {str(one).removeprefix("torch."): one for one in DTYPES}[case.dtype]
    with ThreadedEngine() as engine:
        trainer = make_trainer(
            job,
            engine=engine,
            data={"train": nets.records(case.net)},
            dtype=dtype,
            num_stages=case.stages,
            slice_elements=case.slice_elements,
            resume=place / case.resume if case.resume else None,
            world=world,
            exchange=case.exchange,
            compression=case.compression,
            threshold=case.threshold,
            sync_batch_norm=case.sync_batch_norm,
            same_bits=case.same_bits,
            micro_batches=case.micro_batches if world is not None else None,
            pipeline=case.pipeline,
            watch=watch,
        )
        try:
            trainer.run()
            arrays = {
                key: tensor.detach().numpy().copy() for key, tensor in trainer.whole_net().params.items()
            }
        finally:
            trainer.close()
    of_display = {"shown": np.array(shown)} if shown else {}
    return {**arrays, "losses": np.array(losses), **of_display}


def cuts_of(text: str) -> tuple[LayerCut, ...]:
    """Return the cuts of layers that a text says.

    >>> [(cut.partition_dim, cut.location) for cut in cuts_of("ip1=feature conv1=0")]
    [(1, None), (None, 0)]
    """
    pairs = (word.split("=") for word in text.split())
    dims = {"feature": 1, "rows": 2, "columns": 3}
    return tuple(
        LayerCut(name, dims[how])
        if how in dims
        else LayerCut(name, image_grid=how)
        if "x" in how
        else LayerCut(name, None, int(how))
        for name, how in pairs
    )


def run(folder: Path, cases: list[Case], size: int, threads: int = 1) -> dict[str, dict[str, np.ndarray]]:
    """Return the results of cases on so many ranks, each a process of its own with so many threads."""
    folder.mkdir(exist_ok=True, parents=True)
    described = json.dumps([asdict(case) for case in cases])
    command = [sys.executable, "-m", "tests.training.parallel.ranks", str(folder), described, str(threads)]
    assert Launcher(command, ["cpu"] * size, 0, print).run() == 0
    return {case.name: dict(np.load(folder / f"{case.name}.npz")) for case in cases}


def alone(folder: Path, case: Case) -> dict[str, np.ndarray]:
    """Return the result of one process on the whole batch, without any exchange."""
    return train(case, folder, None)


def main(folder: Path, cases: list[Case], threads: int) -> None:
    """Be one rank."""
    torch.set_num_threads(threads)
    world = join()
    assert world is not None
    with world:
        for case in cases:
            arrays = train(case, folder, world)
            if world.is_first:
                np.savez(folder / f"{case.name}.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Case(**one) for one in json.loads(sys.argv[2])], int(sys.argv[3]))

"""Runs of clusters for tests: a list of cases that need as many processes, all in one start of them.

``python -m tests.training.cluster.processes FOLDER CASES`` is one process; CASES is JSON. The first leaves
the arrays of each case in FOLDER.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netweave.api.jobs import start_of
from netweave.errors import NetweaveError
from netweave.job import Cluster
from netweave.runtime.engine import ThreadedEngine
from netweave.training.cluster.part import ClusterPart, cluster_part
from netweave.training.parallel.environment import GROUP_LOST, leave_at_once, rank_environment
from netweave.training.parallel.launcher import Launcher
from netweave.training.watchers import TrainOptions
from tests.training import char_rnn
from tests.training.parallel import nets
from tests.training.trainers import make_trainer

TIMEOUT_S = 300.0
"""So long do processes wait for each other: the machine may be busy."""


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes:
        name: Of its results.
        cluster: Settings of the cluster.
        net: Of ``tests.training.parallel.nets``, or ``char_rnn``.
        solver: Further settings of the solver.
        steps: Updates of each group.
        snapshot: Updates between two checkpoints.
        resume: Path of a checkpoint to go on from, from the case's folder.
        slow: Seconds that the last worker group sleeps after each update.
        base_lr: Of the solver.
        momentum: Of the solver.
        seed: Of the run.
        batches: Of an update.
        stop: The process that is asked to stop, and the update after which.
        kill: The process that is killed in the first start, and the update after which.
    """

    name: str
    cluster: dict[str, Any] = field(default_factory=dict)
    net: str = "mlp"
    solver: str = ""
    steps: int = 20
    snapshot: int = 0
    resume: str = ""
    slow: float = 0.0
    base_lr: float = 0.05
    momentum: float = 0.9
    seed: int = 5
    batches: int = 1
    stop: list[int] = field(default_factory=list)
    kill: list[int] = field(default_factory=list)


def train(case: Case, folder: Path) -> dict[str, np.ndarray] | None:
    """Train; return all arrays, the losses, and what the servers counted, in the first process."""
    environment = rank_environment()
    assert environment is not None
    place = folder / case.name
    job = replace(load(case.net, place), cluster=Cluster(**case.cluster))
    with cluster_part(job, TrainOptions(), environment, timeout_s=TIMEOUT_S, dtype=torch.float64) as part:
        part.choose_seed(None)
        doomed = case.kill[:1] == [part.role.rank] and is_first_start()
        if doomed and part.role.worker is None:
            threading.Thread(target=die_after, args=(part, case.kill[1]), daemon=True).start()
        if part.role.worker is None:
            part.serve()
            return None
        arrays = work(case, place, part, job)
        lines = part.close()
    return {**arrays, "lines": np.array(lines)} if not environment.rank else None


def work(case: Case, place: Path, part: ClusterPart, job: Any) -> dict[str, np.ndarray]:
    """Be a worker."""
    losses: list[float] = []

    def watch(event: Any) -> None:
        if type(event).__name__ == "Updated":
            losses.append(event.loss)
            if case.stop == [part.role.rank, event.iteration]:
                trainer.stop()
            if case.kill == [part.role.rank, event.iteration] and is_first_start():
                os.kill(os.getpid(), signal.SIGKILL)
            if case.slow and part.groups[0] == part.groups[1] - 1:
                time.sleep(case.slow)

    with part.join_group(None) as world, ThreadedEngine() as engine:
        start = start_of(world, job, place / case.resume if case.resume else False, lambda event: None)
        trainer = make_trainer(
            part.of_group(job),
            engine=engine,
            data={} if case.net == "char_rnn" else {"train": nets.records(case.net)},
            dtype=torch.float64,
            num_stages=3,
            resume=start,
            world=world,
            watch=watch,
        )
        try:
            trainer.run()
            trainer.updater.fetch()
            arrays = {
                key: tensor.detach().numpy().copy() for key, tensor in trainer.nets["train"].params.items()
            }
        finally:
            trainer.close()
    return {**arrays, "losses": np.array(losses)}


def load(net: str, place: Path) -> Any:
    """Return the Job of a case."""
    return char_rnn.load(place) if net == "char_rnn" else nets.job(place / "solver.prototxt")


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return the content of a file with one drawn damage: a bit, a block of zeros, an end that is gone."""
    place = draw.randrange(len(content))
    kind = draw.choice(["bit", "zeros", "cut", "doubled"])
    if kind == "bit":
        return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
    if kind == "zeros" and any(content[place : place + 64]):
        return content[:place] + bytes(min(64, len(content) - place)) + content[place + 64 :]
    if kind == "doubled":
        return content[:place] + content[place : place + 1] + content[place:]
    return content[:place]


def is_first_start() -> bool:
    """Return whether the processes were not started again."""
    return os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def die_after(part: ClusterPart, updates: int) -> None:
    """Kill this process when its server has applied so many updates of all its slices."""
    server, member = part.server, part.role.server
    assert server is not None
    assert member is not None
    while server.applied < updates * len(part.topology.slices_of(member)):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, cases: list[Case], size: int, restarts: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Return the results of cases on so many processes."""
    folder.mkdir(exist_ok=True, parents=True)
    for case in cases:
        if case.net == "char_rnn":
            char_rnn.write(folder / case.name, case.steps)
            continue
        nets.write(
            folder / case.name,
            case.net,
            steps=case.steps,
            solver=case.solver,
            snapshot=case.snapshot,
            base_lr=case.base_lr,
            momentum=case.momentum,
            seed=case.seed,
            batches=case.batches,
        )
    described = json.dumps([asdict(case) for case in cases])
    command = [sys.executable, "-m", "tests.training.cluster.processes", str(folder), described]
    assert Launcher(command, ["cpu"] * size, restarts, print).run() == 0
    return {case.name: dict(np.load(folder / f"{case.name}.npz")) for case in cases}


def main(folder: Path, cases: list[Case]) -> None:
    """Be one process."""
    torch.set_num_threads(1)
    for case in cases:
        try:
            arrays = train(case, folder)
        except NetweaveError as error:
            sys.stderr.write(f"{error}\n")
            leave_at_once(GROUP_LOST)
        if arrays is not None:
            np.savez(folder / f"{case.name}.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Case(**one) for one in json.loads(sys.argv[2])])

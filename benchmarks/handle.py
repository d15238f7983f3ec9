"""What Netweave's own Python costs in a training step, and what the net handle costs beside it: microseconds.

    python -m benchmarks handle [--repeats N] [--json FILE]

The net is small (two products), so that next to nothing is computed and all of a step is its Python. In each
repeat all cases have their turn; shown are the median and the 10th and 90th percentile.

- ``step``: one update by the trainer: batch, engine, both passes, update
- ``by hand``: the same on the net handle, in a loop of the user's own, with the trainer's update rule
- ``reading``, ``changing``: ``net.params[key]``, and ``net.params[key] -= change``, of one array, by a
  user's function that the trainer calls after each update
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.record import Namespace, Record, option
from benchmarks.worker import print_spreads, spread
from netweave import api
from netweave.runtime.engine import ThreadedEngine
from netweave.training import Event, Updated
from netweave.training.loading import make_nets, trained
from netweave.training.optim import Updater
from netweave.training.trainer import Trainer
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from netweave.job import Job

NET = """layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 8 dim: 16 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 8 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 120 random_seed: 1'
KEY = "ip1/0"

WARM_UP = 20
"""Steps of each run that do not count."""


def make_job(folder: Path) -> Job:
    """Return the job of the small net."""
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    job = api.load_job(folder / "solver.prototxt")
    return replace(job, checkpoints=replace(job.checkpoints, at_end=False))


def by_trainer(job: Job, arrays: dict[str, np.ndarray], found: dict[str, list[float]]) -> None:
    """Run the job, with a user's function that looks at the net after each update."""
    change = torch.zeros(16, 16)
    ended = 0

    def told(event: Event) -> None:
        nonlocal ended
        if not isinstance(event, Updated):
            return
        began = time.perf_counter_ns()
        weights = trainer.nets["train"].params[KEY]
        read = time.perf_counter_ns()
        with torch.no_grad():
            trainer.nets["train"].params[KEY] -= change
        changed = time.perf_counter_ns()
        assert weights.shape == change.shape
        if event.iteration >= WARM_UP:
            found["step"].append((began - ended) / 1e3)
            found["reading"].append((read - began) / 1e3)
            found["changing"].append((changed - read) / 1e3)
        ended = time.perf_counter_ns()

    with ThreadedEngine() as engine:
        trainer = Trainer(job, TrainOptions(data={"train": arrays}, threads=1), engine=engine, watch=told)
        trainer.run()
        trainer.close()


def by_hand(job: Job, arrays: dict[str, np.ndarray], found: dict[str, list[float]]) -> None:
    """Make the same steps in a loop of one's own."""
    phase = job.phases["train"]
    nets = make_nets(job.phases, seed=1, device=torch.device("cpu"), dtype=torch.float32)
    net = nets["train"].train()
    updater = Updater(job.solver, trained(phase.graph, net), seed=1)
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for number in range(job.schedule.max_iterations):
        began = time.perf_counter_ns()
        net.zero_grad()
        loss = net(**batch)["loss"]
        loss.backward()
        updater.step(loss.item())
        if number >= WARM_UP:
            found["by hand"].append((time.perf_counter_ns() - began) / 1e3)


OPTIONS = (option("--repeats", default=15),)


def main(options: Namespace, record: Record) -> None:
    """Measure and show."""
    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    arrays = {"data": draw.normal(size=(8, 16)).astype(np.float32), "label": draw.integers(4, size=8)}
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        job = make_job(Path(folder))
        for _ in range(options.repeats):
            by_trainer(job, arrays, found)
            by_hand(job, arrays, found)
    figures = {name: spread(times, 1) for name, times in found.items()}
    print_spreads(figures, "us")
    record.save({"unit": "us", "figures": figures})

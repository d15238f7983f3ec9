"""Loss after equal samples: LeNet on digits, by asynchronous worker groups and by one process.

    python -m benchmarks cluster_quality --json benchmarks/cluster_quality.json

Each method takes the same number of batches of 32. Several groups with servers of their own, or one server
for all, are compared with one process that makes an update from each batch, and with one that makes an update
from as many batches as there are groups, which is what synchronous workers with a batch each do. The loss is
that of all 1,797 digits, in the first group's parameters at the end.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from benchmarks.record import Namespace, Record, option
from tests.training.cluster.processes import Case, run
from tests.training.parallel import nets

DOWNPOUR = {"worker_groups": 2, "separate": True, "staleness": 4}
NESTEROV = {"worker_groups": 3, "server_groups": 3, "sync_every": 16, "outer": "nesterov"}
AVERAGE = {**NESTEROV, "outer": "average"}

METHODS: dict[str, dict[str, Any]] = {
    "one process": {"base_lr": 0.02},
    "two synchronous workers": {"base_lr": 0.02, "batches": 2},
    "three synchronous workers": {"base_lr": 0.02, "batches": 3},
    "downpour, momentum 0.9": {"base_lr": 0.02, "groups": 2, "cluster": DOWNPOUR},
    "downpour, momentum 0.7, rate x 3": {
        "base_lr": 0.06,
        "momentum": 0.7,
        "groups": 2,
        "cluster": DOWNPOUR,
    },
    "nesterov": {"base_lr": 0.02, "groups": 3, "cluster": NESTEROV},
    "nesterov, outer momentum 0.5": {
        "base_lr": 0.02,
        "groups": 3,
        "cluster": {**NESTEROV, "outer_momentum": 0.5},
    },
    "average": {"base_lr": 0.02, "groups": 3, "cluster": AVERAGE},
}

OPTIONS = (
    option("--batches", default=288, help="batches of all groups together, a multiple of 48"),
    option("--seeds", default=5),
    option("--methods", nargs="*", choices=list(METHODS), help="all by default"),
)


def loss_of(arrays: dict[str, Any]) -> float:
    """Return the loss of all digits with LeNet's parameters, by torch alone."""
    p = {key: torch.from_numpy(array) for key, array in arrays.items() if "/" in key}
    records = nets.records("lenet")
    x, labels = torch.from_numpy(records["data"]), torch.from_numpy(records["label"]).long()
    for layer in ("conv1", "conv2"):
        x = functional.conv2d(x, p[f"{layer}/0"], p[f"{layer}/1"].flatten(), padding=1)
        x = functional.max_pool2d(x, 2)
    x = functional.linear(x.flatten(1), p["ip1/0"].reshape(64, -1), p["ip1/1"].flatten()).relu()
    x = functional.linear(x, p["out/0"].reshape(10, -1), p["out/1"].flatten())
    return float(functional.cross_entropy(x, labels))


def measure(name: str, seeds: int, batches: int, folder: Path) -> list[float]:
    """Return the loss of each seed; infinity where a run diverges."""
    settings = dict(METHODS[name])
    share = settings.pop("groups", 1) * settings.get("batches", 1)
    cases = [
        Case(f"seed {seed}", net="lenet", steps=batches // share, seed=seed, **settings)
        for seed in range(1, seeds + 1)
    ]
    size = 3 if "cluster" in settings else 1
    return [loss_of(found) for found in run(folder, cases, size).values()]


def main(options: Namespace, record: Record) -> None:
    """Measure the methods that have no figures yet."""
    for name in options.methods or METHODS:
        results = record.results.setdefault(f"{options.batches} batches", {})
        if name in results:
            continue
        with tempfile.TemporaryDirectory() as folder:
            losses = measure(name, options.seeds, options.batches, Path(folder))
        results[name] = {
            "mean": round(statistics.mean(losses), 4),
            "of seeds": [round(loss, 4) for loss in losses],
        }
        print(name, results[name], flush=True)
        record.save()

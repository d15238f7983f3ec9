"""The same training by four systems, each as its documentation writes it; a program of its own.

    python benchmarks/failures/goodput_loops.py KIND FOLDER EVERY_S

It imports nothing of the benchmarks, so that it runs in an environment that has only the system in it. What
happens is noted in ``FOLDER/notes``: a line with the time, what it is, and the updates in the model.
"""

from __future__ import annotations

import os
import time

BEGAN_S = time.time()

import sys  # noqa: E402 - the time of all imports is noted
from datetime import timedelta  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402
from torch import Tensor, distributed, nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

WIDTH, CLASSES, SIZE = 32, 10, 48
RECORDS, BATCH = 512, 32
RANKS = 2

FASTEST: dict[str, Any] = {"bucket_cap_mb": 1, "gradient_as_bucket_view": True, "broadcast_buffers": False}
"""Settings with which DistributedDataParallel is fastest on these links (``parallel/README.md``)."""


class Block(nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width))
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.past = nn.Conv2d(before, width, 1, stride, bias=False) if before != width else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Return what both ways have given."""
        return torch.relu(self.second(torch.relu(self.first(images))) + self.past(images))


def net() -> nn.Sequential:
    """Return a ResNet-18 of half the width, without its first pooling: 2.8 million parameters."""
    torch.manual_seed(1)
    layers: list[nn.Module] = [nn.Conv2d(3, WIDTH, 3, 2, 1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()]
    before = WIDTH
    for stage in range(4):
        for block in range(2):
            width = WIDTH << stage
            layers.append(Block(before, width, 2 if stage and not block else 1))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def records() -> TensorDataset:
    """Return images and classes."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randn(RECORDS, 3, SIZE, SIZE, generator=draw)
    return TensorDataset(images, torch.randint(CLASSES, (RECORDS,), generator=draw))


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of a model."""
    return torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)


class Share:
    """Batches from an update on, as one rank's part of each: a batch sampler.

    Args:
        done: Updates that were made before.
        rank: Number of the rank.
    """

    def __init__(self, done: int, rank: int) -> None:
        self._done, self._rank = done, rank

    def __iter__(self) -> Any:
        per_epoch = RECORDS // BATCH
        while True:
            order = torch.randperm(
                RECORDS, generator=torch.Generator().manual_seed(self._done // per_epoch)
            ).tolist()
            at = self._done % per_epoch * BATCH
            yield order[at + self._rank : at + BATCH : RANKS]
            self._done += 1


class Notes:
    """What one process notes of its run.

    Args:
        folder: Of the run.
        machine: Name of the machine: the file ``worker.NAME`` has the process there.
    """

    def __init__(self, folder: Path, machine: str) -> None:
        draft = folder / f"worker.{machine}.new"
        draft.write_text(str(os.getpid()))
        draft.replace(folder / f"worker.{machine}")
        self._file = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, kind: str, value: float, at_s: float | None = None) -> None:
        """Note that something has happened."""
        os.write(self._file, f"{time.time() if at_s is None else at_s:.3f} {kind} {value:g}\n".encode())


def check(model: nn.Module, done: int) -> None:
    """Refuse a state in which the passes that its statistics have seen are not its updates."""
    seen = {int(one) for key, one in model.state_dict().items() if key.endswith("num_batches_tracked")}
    if seen != {done}:
        raise SystemExit(f"{done} updates, and statistics of {seen} batches")


def ddp(folder: Path, every_s: float, notes: Notes) -> None:
    """Train by DistributedDataParallel under torchrun: the first rank saves, all load what it has saved."""
    distributed.init_process_group("gloo")
    rank, path = distributed.get_rank(), folder / "snapshot.pt"
    notes("joined", 0)
    model, done = net(), 0
    optimizer = optimizer_of(model)
    if path.exists():
        snapshot = torch.load(path, weights_only=True)  # noqa: TID251 - what this program has saved
        model.load_state_dict(snapshot["model"])
        optimizer.load_state_dict(snapshot["optimizer"])
        done = snapshot["done"]
        check(model, done)
    wrapped = nn.parallel.DistributedDataParallel(model, **FASTEST)
    notes("resumed", done)
    saved_s = time.monotonic()
    for images, labels in DataLoader(records(), batch_sampler=Share(done, rank)):
        optimizer.zero_grad()
        cross_entropy(wrapped(images), labels).backward()
        optimizer.step()
        done += 1
        if rank:
            continue
        notes("update", done)
        if time.monotonic() - saved_s >= every_s:
            began_s = saved_s = time.monotonic()
            save(path, model, optimizer, done)
            notes("saved", time.monotonic() - began_s)


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, done: int) -> None:
    """Write a snapshot, whole or not at all."""
    draft = path.with_suffix(".new")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}, draft)
    draft.replace(path)


def netweave(folder: Path, every_s: float, notes: Notes) -> None:
    """Train by ``netweave.exact`` under torchrun, a shard for each rank."""
    from netweave import exact

    model = net()
    optimizer = optimizer_of(model)
    notes("imported", 0)
    with exact.Exchange(model, shards=RANKS) as exchange:
        notes("joined", 0)
        checkpoint = exact.Checkpoint(
            folder / "run", exchange, every=f"{every_s:g}s", model=model, optimizer=optimizer
        )
        check(model, exchange.iteration)
        notes("resumed", exchange.iteration)
        data = records()
        loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=BATCH))
        while True:
            for batch in exchange.batches(loader):
                for images, labels in batch:
                    cross_entropy(model(images), labels).backward()
                optimizer.step()
                optimizer.zero_grad()
                if exchange.is_first:
                    notes("update", exchange.iteration)
                began_s, saves = time.monotonic(), exchange.saves
                checkpoint.step()
                if exchange.is_first and saves:
                    notes("saved", time.monotonic() - began_s)


def torchft(folder: Path, every_s: float, notes: Notes) -> None:
    """Train by torchft: a replica group for each machine, a lighthouse, and healing from whoever is left.

    Nothing is saved: one group is always there.
    """
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    notes("imported", 0)
    model = net()
    optimizer = optimizer_of(model)

    def state() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def load(content: dict[str, Any]) -> None:
        model.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])

    group = int(os.environ["REPLICA_GROUP_ID"])
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
        load_state_dict=load,
        state_dict=state,
        min_replica_size=1,
        replica_id=f"group_{group}",
        timeout=timedelta(seconds=10),
    )
    notes("joined", 0)
    wrapped, stepping = DistributedDataParallel(manager, model), Optimizer(manager, optimizer)
    loader = iter(DataLoader(records(), batch_sampler=Share(0, group)))
    is_new = True
    while True:
        images, labels = next(loader)
        stepping.zero_grad()
        cross_entropy(wrapped(images), labels).backward()
        stepping.step()
        done = manager.batches_committed() / RANKS
        if is_new and manager.current_step():
            notes("resumed", done)
            is_new = False
        notes("update", done)


def ray(folder: Path, every_s: float, notes: Notes) -> None:
    """Train by Ray Train's TorchTrainer; this process is its driver."""
    import ray as core
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    core.init(address="auto", log_to_driver=False)
    trainer = TorchTrainer(
        of_ray,
        train_loop_config={"folder": str(folder), "every_s": every_s},
        scaling_config=ScalingConfig(num_workers=RANKS, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(
            name="run",
            storage_path=str(folder / "ray"),
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    trainer.fit()


def of_ray(config: dict[str, Any]) -> None:
    """Train as one worker of Ray's."""
    import tempfile

    import ray.train
    from ray.train.torch import prepare_model

    folder = Path(config["folder"])
    notes = Notes(folder, os.uname().nodename)
    notes("joined", 0)
    model, done = net(), 0
    optimizer = optimizer_of(model)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as place:
            snapshot = torch.load(Path(place, "snapshot.pt"), weights_only=True)  # noqa: TID251
        model.load_state_dict(snapshot["model"])
        optimizer.load_state_dict(snapshot["optimizer"])
        done = snapshot["done"]
        check(model, done)
    wrapped = prepare_model(model, parallel_strategy_kwargs=FASTEST)
    notes("resumed", done)
    rank = ray.train.get_context().get_world_rank()
    saved_s = time.monotonic()
    for images, labels in DataLoader(records(), batch_sampler=Share(done, rank)):
        optimizer.zero_grad()
        cross_entropy(wrapped(images), labels).backward()
        optimizer.step()
        done += 1
        if not rank:
            notes("update", done)
        # all workers report together: by a number of updates that takes so long
        due = torch.tensor(float(time.monotonic() - saved_s >= config["every_s"]))
        distributed.broadcast(due, 0)
        if due:
            began_s = saved_s = time.monotonic()
            with tempfile.TemporaryDirectory() as place:
                found = None
                if not rank:
                    save(Path(place, "snapshot.pt"), model, optimizer, done)
                    found = ray.train.Checkpoint.from_directory(place)
                ray.train.report({"done": done}, checkpoint=found)
            if not rank:
                notes("saved", time.monotonic() - began_s)


KINDS = {one.__name__: one for one in (netweave, ddp, torchft, ray)}


def main() -> None:
    """Train until somebody ends it."""
    kind, folder, every_s = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    machine = "driver" if kind == "ray" else os.uname().nodename
    notes = Notes(folder, machine)
    if kind != "ray":
        notes("begun", 0, BEGAN_S)
        notes("torch", 0)
    KINDS[kind](folder, every_s, notes)


if __name__ == "__main__":
    main()

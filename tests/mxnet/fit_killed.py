"""A fit that is killed: dropout, an operator with a state, a source without inputs, and validation."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import netweave.mxnet as mx
from netweave import symbol as sym
from netweave.api.custom_operators import operator
from netweave.training import Checkpoint, read_checkpoint
from netweave.training.checkpoint_file import kept

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

EPOCHS, BATCH, RECORDS = 4, 8, 60
UPDATES = EPOCHS * -(-RECORDS // BATCH)
PREFIX = "kept/fit"


def register() -> tuple[Any, Any]:
    """Enter the two operators."""

    @operator(
        "RunningCentre",
        shapes=lambda x: x,
        gradient=lambda inputs, outputs, above: above,
        state=lambda: {"mean": np.zeros(5, np.float32), "calls": np.zeros(1, np.int64)},
    )
    def centre(x: np.ndarray, *, state: dict[str, np.ndarray]) -> np.ndarray:
        state["mean"] = np.float32(0.9) * state["mean"] + np.float32(0.1) * x.mean(0)
        state["calls"] += 1
        return x - state["mean"]

    @operator("Offsets", shapes=lambda: (5,), state=lambda: {"at": np.zeros(1, np.int64)})
    def offsets(*, state: dict[str, np.ndarray]) -> np.ndarray:
        state["at"] += 1
        return np.random.default_rng(int(state["at"][0])).normal(size=5).astype(np.float32) / 8

    return centre, offsets


def net() -> sym.Symbol:
    """Return the net."""
    centre, offsets = register()
    x = sym.broadcast_add(centre(sym.Variable("data"), name="centre"), offsets(name="offsets"))
    x = sym.FullyConnected(x, num_hidden=300, name="fc1")
    x = sym.Dropout(sym.Activation(x, act_type="relu"), p=0.4, name="drop")
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=3, name="fc2"), name="softmax")


def batches(*, shuffle: bool = True) -> mx.io.NDArrayIter:
    """Return the records in batches."""
    data = np.random.default_rng(0).normal(size=(RECORDS, 5)).astype(np.float32)
    return mx.io.NDArrayIter(data, data[:, :3].argmax(1).astype(np.float32), BATCH, shuffle=shuffle)


def fit(folder: Path, *, resume: bool = False, data: Any = batches, **options: Any) -> tuple[Any, list[Any]]:
    """Fit, from the latest checkpoint or the beginning; return the module, and the metrics of each epoch.

    An epoch of which a part was over when the fit resumed counts as a whole.
    """
    mx.random.seed(3)
    module, seen = mx.mod.Module(net()), []

    def note(param: Any) -> None:
        seen.append((param.epoch, param.nbatch, param.eval_metric.get_name_value()))

    module.fit(
        data(),
        eval_data=batches(shuffle=False),
        **{"eval_metric": ["acc", "ce", mx.metric.PCC()], "optimizer": "adam", **options},
        num_epoch=EPOCHS,
        optimizer_params={"learning_rate": 0.01},
        eval_end_callback=note,
        checkpoint_prefix=folder / PREFIX,
        checkpoint_interval=1,
        resume=resume,
    )
    return module, seen


def run(folder: str, told: Connection) -> None:
    """Fit in a process of its own, which may be killed; say when it begins and what it ends with."""
    torch.set_num_threads(1)
    begun = False

    def begins(param: Any) -> None:
        nonlocal begun
        if not begun:
            told.send("begins")
            begun = True

    _, seen = fit(Path(folder), resume=bool(kept(f"{folder}/{PREFIX}")), batch_end_callback=begins)
    told.send(seen[-1])


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[Any, Connection]]:
    """A process that fits; gives it, and what hears from it."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.mxnet.fit_killed"])
    hear, told = processes.Pipe(duplex=False)
    process = processes.Process(target=run, args=(str(folder), told))
    process.start()
    told.close()
    try:
        yield process, hear
    finally:
        process.kill()
        process.join()


def last(folder: Path) -> tuple[int, Checkpoint]:
    """Return the last checkpoint, and its iteration."""
    (iteration, path), *_ = kept(str(folder / PREFIX))
    return iteration, read_checkpoint(path)


def whole(folder: Path) -> tuple[Checkpoint, Any, float]:
    """Fit undisturbed; return the last checkpoint, the last score, and how long the updates took."""
    folder.mkdir()
    with running(folder) as (_, hear):
        assert hear.recv() == "begins"
        began_s = time.perf_counter()
        score = hear.recv()
        duration = time.perf_counter() - began_s
    return last(folder)[1], score, duration


def killed(
    folder: Path, expected: Checkpoint, score: Any, duration: float, draw: random.Random, *, most: int
) -> tuple[int, bool]:
    """Kill a fit at drawn moments, and go on, until it is through; return how often, and if it is equal."""
    folder.mkdir()
    kills = 0
    while True:
        with running(folder) as (process, hear):
            heard = hear.recv()
            if heard == "begins" and (kills >= most or hear.poll(draw.uniform(0, 0.6 * duration))):
                heard = hear.recv()
            if heard != "begins":
                return kills, heard == score and is_equal(last(folder)[1], expected)
            process.kill()
            kills += 1


def is_equal(found: Checkpoint, expected: Checkpoint) -> bool:
    """Whether parameters, solver, states of operators and the place in the data are the same to the bit."""
    return (
        found.state == expected.state
        and list(found.arrays) == list(expected.arrays)
        and all(found.arrays[name].tobytes() == array.tobytes() for name, array in expected.arrays.items())
    )

"""A fit that is killed: dropout, an operator with a state, a source without inputs, and validation."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave import symbol as sym
from netweave.api.custom_operators import operator
from netweave.api.models import Module
from netweave.keras import EarlyStopping
from netweave.training import Checkpoint, read_checkpoint
from netweave.training.checkpoint_file import kept

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from netweave.api.models.events import BatchEnd, EpochEnd

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


def fit(folder: Path, *, resume: bool = False, **options: Any) -> tuple[Module, Any]:
    """Fit, from the latest checkpoint or the beginning; return the model and its history."""
    draw = np.random.default_rng(0)
    data = draw.normal(size=(RECORDS, 5)).astype(np.float32)
    labels = data[:, :3].argmax(1).astype(np.float32)
    model = Module(net())
    history = model.fit(
        data,
        labels,
        num_epoch=EPOCHS,
        batch_size=BATCH,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.01},
        eval_data=(data, labels),
        shuffle=True,
        seed=3,
        checkpoint_prefix=folder / PREFIX,
        checkpoint_interval=1,
        resume=resume,
        **options,
    )
    return model, history


def run(folder: str, told: Connection) -> None:
    """Fit in a process of its own, which may be killed; say when it begins and what it ends with."""
    torch.set_num_threads(1)
    begun = False

    def begins(event: BatchEnd | EpochEnd) -> None:
        nonlocal begun
        if not begun:
            told.send("begins")
            begun = True

    stop = EarlyStopping("val_accuracy", patience=100)
    _, history = fit(Path(folder), resume=bool(kept(f"{folder}/{PREFIX}")), callbacks=[begins, stop])
    told.send(list(history.epochs))


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[Any, Connection]]:
    """A process that fits; gives it, and what hears from it."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.api.fit_killed"])
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
    """Fit undisturbed; return the last checkpoint, the epochs, and how long the updates took."""
    folder.mkdir()
    with running(folder) as (_, hear):
        assert hear.recv() == "begins"
        began_s = time.perf_counter()
        epochs = hear.recv()
        duration = time.perf_counter() - began_s
    return last(folder)[1], epochs, duration


def killed(
    folder: Path, expected: Checkpoint, epochs: Any, duration: float, draw: random.Random, *, most: int
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
                return kills, heard == epochs and is_equal(last(folder)[1], expected)
            process.kill()
            kills += 1


def is_equal(found: Checkpoint, expected: Checkpoint) -> bool:
    """Whether parameters, solver, states of operators and the place in the data are the same to the bit."""
    return (
        found.state == expected.state
        and list(found.arrays) == list(expected.arrays)
        and all(found.arrays[name].tobytes() == array.tobytes() for name, array in expected.arrays.items())
    )

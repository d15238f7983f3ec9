"""Other runs whose machine is taken away: ``python -m benchmarks.failures.fitted KIND``.

Each works in the folder that it is started in, resumes from the latest checkpoint of ``out/net`` there, and
says what ``netweave train`` says: the number of each update, from 0, and how many were done when it stopped.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

EPOCHS, BATCH, RECORDS = 300, 8, 160
UPDATES = EPOCHS * RECORDS // BATCH
PREFIX = Path("out/net")


def records() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and classes."""
    inputs = np.random.default_rng(0).normal(size=(RECORDS, 5)).astype(np.float32)
    return inputs, inputs[:, :3].argmax(1).astype(np.float32)


def keras() -> None:
    """Fit a model with dropout by ``netweave.keras``."""
    from netweave import keras

    class Told(keras.callbacks.Callback):
        epoch = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            number = self.epoch * RECORDS // BATCH + batch
            print(f"Iteration {number}, loss {logs['loss']}", flush=True)

    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(64, activation="relu"), keras.layers.Dropout(0.4), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((5,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
    inputs, classes = records()
    settings = {"epochs": EPOCHS, "batch_size": BATCH, "seed": 3, "verbose": 0, "callbacks": [Told()]}
    model.fit(inputs, classes.astype(int), checkpoint_prefix=PREFIX, resume="auto", **settings)


def mxnet() -> None:
    """Fit the module with dropout and operators with a state by ``netweave.mxnet``."""
    import netweave.mxnet as mx
    from tests.mxnet import fit_killed

    def told(param: Any) -> None:
        number = param.epoch * RECORDS // BATCH + param.nbatch
        print(f"Iteration {number}, loss {param.eval_metric.get()[1]}", flush=True)

    mx.random.seed(3)
    inputs, classes = records()
    mx.mod.Module(fit_killed.net()).fit(
        mx.io.NDArrayIter(inputs, classes, BATCH, shuffle=True),
        eval_metric="ce",
        optimizer="adam",
        num_epoch=EPOCHS,
        optimizer_params={"learning_rate": 0.01},
        batch_end_callback=told,
        checkpoint_prefix=PREFIX,
        checkpoint_interval=500,
        resume="auto",
    )


def exact() -> None:
    """Train with a loop of PyTorch's and ``netweave.exact``."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from netweave import exact

    torch.manual_seed(3)
    layers = [torch.nn.Linear(5, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Dropout(0.4)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(*map(torch.from_numpy, records()))
    with exact.Exchange(model, shards=2) as exchange:
        checkpoint = exact.Checkpoint(PREFIX, exchange, every=500, model=model, optimizer=optimizer)
        loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=BATCH))
        while exchange.iteration < UPDATES:
            for batch in exchange.batches(loader):
                for inputs, classes in batch:
                    torch.nn.functional.cross_entropy(model(inputs), classes.long()).backward()
                optimizer.step()
                print(f"Iteration {exchange.iteration - 1}, loss", flush=True)
                checkpoint.step()
        checkpoint.save()


def torchrun() -> int:
    """Run ``netweave train`` under two agents with a worker each, as on two machines.

    Agents end with statuses of their own (1 after the 143 of a worker), which are told as 143.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    agents = []
    for node in range(2):
        arguments = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "run"]
        arguments += ["--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1"]
        arguments += [
            "--rdzv-conf",
            f"is_host={int(node == 0)}",
            "-m",
            "netweave",
            "train",
            "solver.prototxt",
        ]
        arguments += ["--batch", "split", "--seed", "4", "--requeued"]
        command = [sys.executable, "-m", "torch.distributed.run", *arguments]
        agents.append(subprocess.Popen(command, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}))
    statuses = [agent.wait() for agent in agents]
    return 143 if any(statuses) else 0


KINDS = {one.__name__: one for one in (keras, mxnet, exact, torchrun)}


def main() -> None:
    """Train, and say where the run begins and stops."""
    from netweave.training.checkpoint_file import kept

    kind = sys.argv[1]
    if kind == "torchrun":
        sys.exit(torchrun())
    found = kept(str(PREFIX))
    if found:
        print(f"resuming from {found[0][1]}", flush=True)
    try:
        KINDS[kind]()
    except SystemExit:
        print(f"Iteration {kept(str(PREFIX))[0][0]}, stopped", flush=True)
        raise
    print(f"Iteration {UPDATES}, writing", flush=True)


if __name__ == "__main__":
    main()

"""Training by Netweave.

    python -m benchmarks.training.netweave_worker NET CORPUS THREADS STAGES[:PRECISION]

The net is read from its file and trained as by ``netweave.train``; a step is what lies between two updates,
batches made and all. Each step is waited for to its end, which a run by itself does not.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import torch

import netweave
from benchmarks.training import protocol
from benchmarks.training.nets import NETS, SIZE
from netweave import api
from netweave.runtime.engine import ThreadedEngine
from netweave.training import Event, Updated
from netweave.training.process import keep_memory
from netweave.training.trainer import Trainer
from netweave.training.watchers import TrainOptions

SOLVER = f"""base_lr: {protocol.RATE} lr_policy: "fixed" momentum: {protocol.MOMENTUM}
weight_decay: {protocol.DECAY} max_iter: 1000000 random_seed: 1
"""


def main() -> None:
    """Read the net, and train it as a thread beside is told to."""
    net, corpus, threads = NETS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3])
    stages, _, precision = sys.argv[4].partition(":")
    torch.set_num_threads(threads)
    shapes = {"data": (net.batch, 3, SIZE, SIZE), "label": (net.batch,)}
    with tempfile.TemporaryDirectory() as folder:
        solver = Path(folder, "solver.prototxt")
        solver.write_text(f'train_net: "{corpus / net.file}"\n{SOLVER}')
        job = api.load_job(solver, input_shapes=shapes)
    phase = job.phases["train"]
    source = replace(phase.data[0], batch_size=net.batch)
    job = replace(job, phases={"train": replace(phase, data=(source,))})
    draw = np.random.default_rng(0)
    images = draw.normal(size=(net.batch, 3, SIZE, SIZE)).astype(np.float32)
    data = {"train": {"data": images, "label": draw.integers(protocol.CLASSES, size=net.batch)}}
    wanted: SimpleQueue[None] = SimpleQueue()
    done: SimpleQueue[float] = SimpleQueue()

    def told(event: Event) -> None:
        if isinstance(event, Updated):
            trainer.program.wait()
            done.put(event.loss)
            wanted.get()

    def step() -> float:
        wanted.put(None)
        return done.get()

    count = sum(parameter.size for parameter in phase.graph.parameters.values() if parameter.trainable)
    serve = partial(protocol.serve, count, step, name=f"Netweave {netweave.__version__}")
    keep_memory()  # before there is a second thread, as in a run by itself
    threading.Thread(target=serve, daemon=True).start()
    wanted.get()
    with ThreadedEngine() as engine:
        trainer = Trainer(
            job,
            TrainOptions(data=data, num_stages=int(stages), precision=precision or "f32"),
            engine=engine,
            watch=told,
        )
        trainer.run()


if __name__ == "__main__":
    main()

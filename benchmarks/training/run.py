"""Milliseconds of a training step: Netweave against PyTorch, MXNet and TensorFlow, interleaved.

    NETWEAVE_CORPUS=... python -m benchmarks training --mxnet PYTHON --tensorflow PYTHON
        [--net NAME] [--only NAME,NAME] [--before FOLDER] [--rounds N] [--steps N]
        [--threads N] [--json FILE]

Every candidate is a process of its own, which makes no step but when it is its turn; in each round all have
theirs, in an order drawn anew. Batch, image size, threads and optimizer (SGD with momentum and decay, in
float32) are the same for all; the batch lies in memory, and Netweave takes it through its loader all the
same. Shown are the median, the 10th and the 90th percentile of all steps. ``--json`` is added to, so that
nets, and candidates (always with ``netweave`` among them), can be measured one after another.

- ``netweave``: Caffe's file, trained by ``netweave.train``
- ``stages``: the same cut into eight stages
- ``before``: the same by another commit, which is checked out in the folder
- ``eager``: modules as people write them (``eager.py``)
- ``channels last``: the same in channels-last, with memory kept as Netweave keeps it
- ``compile``: the same by ``torch.compile``
- ``bf16``, ``autocast``, ``mixed`` (with ``--bf16``): ``netweave`` with that precision, ``channels last``
  under autocast, ``TensorFlow`` in mixed precision
- ``MXNet``, ``TensorFlow``: the layers of the same file, by ``Module`` and by one ``tf.function``
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Namespace, Record, option
from benchmarks.training.nets import NETS, SIZE, layers
from benchmarks.worker import Worker, spread

HERE = Path(__file__).parent
PYTORCH = {"eager": "eager", "channels last": "last", "compile": "compile", "autocast": "autocast"}
BF16 = ("bf16", "autocast", "mixed")


def commands(name: str, options: Namespace, table: Path) -> dict[str, list[str]]:
    """Return how each candidate is started."""
    net, threads = NETS[name], str(options.threads)
    sizes = [str(net.batch), str(SIZE), threads]
    ours = [sys.executable, "-m", "benchmarks.training.netweave_worker", name, os.environ["NETWEAVE_CORPUS"]]
    found = {
        "netweave": [*ours, threads, "1"],
        "stages": [*ours, threads, "8"],
        BF16[0]: [*ours, threads, "1:bf16"],
    }
    if options.before:
        found["before"] = [*ours, threads, "1"]
    for candidate, kind in PYTORCH.items():
        worker = [sys.executable, "-m", "benchmarks.training.torch_worker", name, kind]
        found[candidate] = [*worker, *sizes]
    if options.mxnet:
        found["MXNet"] = [options.mxnet, str(HERE / "mxnet_worker.py"), str(table), *sizes]
    if options.tensorflow:
        worker = [options.tensorflow, str(HERE / "tensorflow_worker.py"), str(table)]
        found["TensorFlow"] = [*worker, *sizes]
        found[BF16[2]] = [*worker, *sizes, "bf16"]
    if not options.bf16:
        found = {key: row for key, row in found.items() if key not in BF16}
    return {key: row for key, row in found.items() if not options.only or key in options.only.split(",")}


def measure(name: str, options: Namespace) -> dict[str, Any]:
    """Return the figures of one net, by candidate."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        table = Path(folder, "layers.json")
        table.write_text(json.dumps(layers(NETS[name], Path(os.environ["NETWEAVE_CORPUS"]))))
        workers: dict[str, Worker] = {}
        for candidate, command in commands(name, options, table).items():
            folder = options.before if candidate == "before" else None
            workers[candidate] = Worker(command, options.threads, folder)
            stack.callback(workers[candidate].close)
        counts = {candidate: worker.about["parameters"] for candidate, worker in workers.items()}
        if len(set(counts.values())) > 1:
            raise SystemExit(f"{name}: not the same net: {counts} parameters")
        found: dict[str, dict[str, list[float]]] = {
            candidate: {"wall": [], "cpu": []} for candidate in workers
        }
        shuffle = random.Random(0)
        for _ in range(options.rounds):
            for candidate in shuffle.sample(list(workers), len(workers)):
                for kind, seconds in workers[candidate].ask(options.steps).items():
                    found[candidate][kind].extend(seconds)
        return {
            candidate: {kind: spread(seconds, 2, 1e3) for kind, seconds in rows.items()}
            | {"steps": len(rows["wall"]), "version": workers[candidate].about["name"]}
            | {"fastest": round(min(rows["wall"]) * 1e3, 2), "ratio": ratio(rows, found["netweave"])}
            for candidate, rows in found.items()
        }


def ratio(rows: dict[str, list[float]], ours: dict[str, list[float]]) -> float:
    """Return the median, over rounds, of a candidate's time by Netweave's in the same round."""
    pairs = zip(rows["wall"], ours["wall"], strict=True)
    return round(float(np.median([theirs / own for theirs, own in pairs])), 4)


def show(name: str, rows: dict[str, Any], threads: int) -> None:
    """Print the figures of one net."""
    print(f"{name}, {NETS[name].batch} images of {SIZE} x {SIZE}, {threads} threads: ms of a step")
    for candidate, row in rows.items():
        median, low, high = row["wall"]
        print(
            f"  {candidate:15} {median:8.1f}  ({low:.1f} to {high:.1f}), at best {row['fastest']:.1f}   "
            f"{row['ratio']:.3f} times Netweave's"
        )


OPTIONS = (
    option("--net", choices=NETS, action="append"),
    option("--only"),
    option("--before", type=Path, metavar="FOLDER"),
    option("--rounds", default=7),
    option("--steps", default=3),
    option("--threads", default=2),
    option("--bf16", default=False, help="where the processor has AVX512-BF16 or AMX"),
    option("--mxnet", metavar="PYTHON"),
    option("--tensorflow", metavar="PYTHON"),
)


def main(options: Namespace, record: Record) -> None:
    """Measure, print and write; see the head of the file."""
    record.results["threads"] = options.threads
    for name in options.net or NETS:
        rows = measure(name, options)
        show(name, rows, options.threads)
        record.results.setdefault("nets", {}).setdefault(name, []).append(rows)
        record.save()

"""Milliseconds of a run: prepared nets against raw runtimes, interleaved.

    python -m benchmarks inference [--net NAME] [--batch N] [--precision f32|bf16] [--only NAME,NAME]
        [--rounds N] [--threads N] [--mxnet PYTHON] [--folder FOLDER] [--json FILE]

Every candidate is a process of its own, which runs its net only when it is its turn; in each round all have
theirs, in an order drawn anew, for a quarter of a second or one run. All have the same weights, input and
threads, and their outputs are compared before the first round. Shown are the median, the 10th and the 90th
percentile of the rounds, and Netweave's time by that of the best other candidate in the same round.

- ``netweave``: ``netweave.prepare(net)``, which chooses the backend; it is given no batch size but the one
  that backends are tried at
- ``OpenVINO``, ``ONNX Runtime``: the ONNX file, as their documentation says for the shortest time of a run;
  OpenVINO for this one batch size
- ``torch.compile``: PyTorch source that ``netweave convert`` wrote, channels last, with frozen weights
- ``OpenCV``: the Caffe files that ``netweave convert`` wrote, by its own importer
- ``MXNet``: the files that ``netweave convert`` wrote, by ``Module``, in its own interpreter

``--json`` is added to, so that nets can be measured one after another; ``--folder`` keeps the files.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.record import Namespace, Record, option
from benchmarks.worker import Worker, spread
from examples.zoo import NETS as ZOO
from netweave import api
from netweave.graph.stored import with_arrays

if TYPE_CHECKING:
    from netweave.graph import Parameter

HERE = Path(__file__).parent
NETS = (
    "alexnet",
    "vgg16",
    "googlenet",
    "inception-v3",
    "resnet50",
    "densenet121",
    "squeezenet",
    "mobilenet-v2",
)
BATCHES = (1, 8, 32)
OTHERS = {
    "f32": ("OpenVINO", "ONNX Runtime", "torch.compile", "OpenCV", "MXNet"),
    "bf16": ("OpenVINO", "torch.compile"),
}
TOLERANCE = {"f32": 1e-3, "bf16": 0.1}
"""Largest rms of the differences of outputs, relative to the rms of the output."""


def write(name: str, folder: Path, *, for_mxnet: bool) -> None:
    """Write a net with drawn weights for all candidates, unless that was done before."""
    if (folder / "net.onnx").exists():
        return
    published = ZOO[name]
    plain = api.to_inference(published.build().graph(data=(1, *published.image)))
    graph = with_arrays(plain, {p.key: drawn(p) for p in plain.parameters.values()})
    for file in ("net.py", "net.prototxt", *(["net-symbol.json"] if for_mxnet else []), "net.onnx"):
        api.save(graph, folder / file)


def drawn(parameter: Parameter) -> np.ndarray:
    """Return weights under which values keep their size (He et al. 2015), so that outputs can be compared."""
    if parameter.role != "weight":
        return np.full(parameter.shape, parameter.role in {"gamma", "variance"}, np.float32)
    generator = np.random.default_rng(zlib.crc32(parameter.key.encode()))
    scale = np.sqrt(2 / np.prod(parameter.shape[1:]))
    return (generator.standard_normal(parameter.shape) * scale).astype(np.float32)


def commands(name: str, folder: Path, batch: int, options: Namespace) -> dict[str, list[str]]:
    """Return how each candidate is started."""
    image, found = "x".join(map(str, ZOO[name].image)), {}
    for kind in ("netweave", *OTHERS[options.precision]):
        if options.only and kind not in options.only.split(","):
            continue
        output = str(folder / f"{kind}.npy")
        if kind != "MXNet":
            arguments = [kind, str(folder), str(batch), image, str(options.threads), options.precision]
            found[kind] = [sys.executable, "-m", "benchmarks.inference.worker", *arguments, output]
        elif options.mxnet:
            worker = [options.mxnet, str(HERE / "mxnet_worker.py")]
            found[kind] = [*worker, str(folder / "net"), str(batch), image, output]
    return found


def measure(name: str, batch: int, options: Namespace, folder: Path) -> dict[str, Any]:
    """Return the figures of one net and batch, by candidate."""
    write(name, folder, for_mxnet=bool(options.mxnet))
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for kind, command in commands(name, folder, batch, options).items():
            try:
                workers[kind] = Worker(command, options.threads)
            except SystemExit as failure:
                print(f"{name}, batch {batch}: {kind} cannot run it: {failure}", flush=True)
                continue
            stack.callback(workers[kind].close)
        errors = compare_outputs(folder, list(workers), options.precision)
        rounds: dict[str, list[float]] = {kind: [] for kind in workers}
        shuffle = random.Random(0)
        for _ in range(options.rounds):
            for kind in shuffle.sample(list(workers), len(workers)):
                rounds[kind].append(float(np.median(workers[kind].ask(1)["seconds"])))
        others = [kind for kind in rounds if kind != "netweave"]
        best = min(others, key=lambda kind: float(np.median(rounds[kind])))
        ratios = [own / other for own, other in zip(rounds["netweave"], rounds[best], strict=True)]
        return {
            "best": best,
            "ratio": spread(ratios, 4),
            "candidates": {
                kind: {
                    "ms": spread(seconds, 3, 1e3),
                    "name": workers[kind].about["name"],
                    "start_s": round(workers[kind].about["start_s"] + workers[kind].about["first_s"], 2),
                    "error": errors[kind],
                }
                for kind, seconds in rounds.items()
            },
        }


def compare_outputs(folder: Path, kinds: list[str], precision: str) -> dict[str, float]:
    """Return the difference of each candidate's output to the first raw one's, relative to the rms.

    Raises:
        SystemExit: They do not compute the same.
    """
    outputs = {kind: np.load(folder / f"{kind}.npy").astype(np.float64) for kind in kinds}
    right = outputs[kinds[1]]
    size = float(np.sqrt(np.mean(np.square(right))))
    errors = {
        kind: float(np.sqrt(np.mean(np.square(y.reshape(right.shape) - right)))) / size
        for kind, y in outputs.items()
    }
    if not max(errors.values()) < TOLERANCE[precision]:
        raise SystemExit(f"not the same net: {errors}")
    return {kind: float(f"{error:.1e}") for kind, error in errors.items()}


def show(title: str, found: dict[str, Any]) -> None:
    """Print the figures of one net and batch."""
    ratio, low, high = found["ratio"]
    print(f"{title}: netweave takes {ratio:.3f} ({low:.3f} to {high:.3f}) of the time of {found['best']}")
    for kind, row in found["candidates"].items():
        median, low, high = row["ms"]
        print(
            f"  {kind:14} {median:9.2f} ms ({low:.2f} to {high:.2f})  {row['name']}, "
            f"ready in {row['start_s']:.1f} s, error {row['error']:.0e}",
            flush=True,
        )


OPTIONS = (
    option("--net", choices=ZOO, action="append"),
    option("--batch", type=int, action="append"),
    option("--precision", choices=OTHERS, default="f32"),
    option("--only"),
    option("--rounds", default=9),
    option("--threads", type=int, default=len(os.sched_getaffinity(0))),
    option("--mxnet", metavar="PYTHON"),
    option("--folder", type=Path),
)


def main(options: Namespace, record: Record) -> None:
    """Measure, print and write; see the head of the file."""
    record.results["threads"] = options.threads
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.net or NETS:
            folder = (options.folder or Path(temporary)) / name
            folder.mkdir(parents=True, exist_ok=True)
            for batch in options.batch or BATCHES:
                found = measure(name, batch, options, folder)
                show(f"{ZOO[name].title}, batch {batch}, {options.precision}", found)
                rows = record.results.setdefault(options.precision, {}).setdefault(name, {})
                rows[str(batch)] = found
                record.save()

"""Decoded images per second: JPEG of 500 x 375, random window of 224, mirror, mean.

    python -m benchmarks input [--threads N] [--seconds S] [--mxnet PYTHON] [--json FILE]

The images are drawn (smooth noise, about 60 kB each) and packed as MXNet's records and as Caffe's data base.
Beside Netweave's loader, and in turns with it, MXNet's ImageRecordIter reads the same records, and PyTorch's
DataLoader the files by Pillow, with as many processes as the others have threads. Shown are the median and
the 10th and 90th percentile over ten turns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import cv2
import numpy as np

from benchmarks.rates import rate
from benchmarks.record import Namespace, Record, option
from benchmarks.worker import Worker, print_spreads, spread
from netweave.job import DataSource
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, open_source
from netweave.training.data.pack import pack
from netweave.training.data.sources.images import ImageFolder

IMAGES = 128
BATCH = 32
ORIENTATIONS = 10
HERE = Path(__file__).parent
TRANSFORMS = (
    {"kind": "crop", "height": 224, "width": 224, "where": "random"},
    {"kind": "mirror"},
    {"kind": "subtract", "values": [104.0, 117.0, 123.0]},
)


def draw(folder: Path) -> None:
    """Write the images, in one folder as one class."""
    (folder / "all").mkdir(parents=True)
    for index in range(IMAGES):
        generator = np.random.default_rng(index)
        coarse = generator.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        smooth = cv2.resize(coarse, (500, 375), interpolation=cv2.INTER_CUBIC)
        noisy = np.clip(smooth + generator.normal(0.0, 9.0, smooth.shape), 0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / "all" / f"{index:04d}.jpg"), noisy, [cv2.IMWRITE_JPEG_QUALITY, 86])


def ours(source: DataSource, threads: int, stack: ExitStack) -> Callable[[float], float]:
    """Return what measures Netweave's loader for so many seconds, in images per second."""
    engine = stack.enter_context(ThreadedEngine({"input": threads}))
    opened = open_source(source)
    order = Order(num_records=len(opened), batch_size=BATCH, shuffle=True)
    loader = Loader(
        opened,
        source.outputs,
        engine=engine,
        order=order,
        transforms=source.transforms,
        threads=threads,
    )
    stack.callback(loader.close)

    rate(loader.take, BATCH, 0.5)
    return lambda seconds: rate(loader.take, BATCH, seconds)


def theirs(command: list[str], threads: int, stack: ExitStack) -> Callable[[float], float]:
    """Return what measures another program, a process that waits while it is not its turn."""
    worker = Worker(command, threads)
    stack.callback(worker.close)
    return lambda seconds: float(worker.ask(seconds)["rate"])


def measure(options: Namespace, folder: Path, stack: ExitStack) -> dict[str, list[float]]:
    """Return images per second by candidate, turn by turn."""
    images, arguments = folder / "images", [str(options.threads), str(BATCH)]
    found: dict[str, Callable[[float], float]] = {}
    for kind, name in [("recordio", "images.rec"), ("lmdb", "images_lmdb")]:
        pack(ImageFolder(str(images)), folder / name, kind)
        source = DataSource(kind, ("data", "label"), BATCH, {"path": str(folder / name)}, TRANSFORMS)
        found[f"netweave, {kind}"] = ours(source, options.threads, stack)
    if options.mxnet:
        worker = [options.mxnet, str(HERE / "input_mxnet.py"), str(folder / "images.rec"), *arguments]
        found["MXNet"] = theirs(worker, options.threads, stack)
    worker = [sys.executable, str(HERE / "input_dataloader.py"), str(images), *arguments]
    found["DataLoader"] = theirs(worker, options.threads, stack)
    rates: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(ORIENTATIONS):
        for name, run in found.items():
            rates[name].append(run(options.seconds / ORIENTATIONS))
    return rates


OPTIONS = (
    option("--threads", default=2),
    option("--seconds", default=10.0),
    option("--mxnet", metavar="PYTHON"),
)


def main(options: Namespace, record: Record) -> None:
    """Measure and show."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        images = Path(folder) / "images"
        draw(images)
        num_bytes = sum(path.stat().st_size for path in images.rglob("*.jpg")) / IMAGES
        rates = measure(options, Path(folder), stack)
    figures = {name: spread(values, 0) for name, values in rates.items()}
    print_spreads(figures, "images/s")
    record.save({"threads": options.threads, "bytes": num_bytes, "unit": "images/s", "figures": figures})

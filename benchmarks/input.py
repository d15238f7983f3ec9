"""Decoded images per second: JPEG of 500 x 375, random window of 224, mirror, mean.

    python benchmarks/input.py [--threads N] [--seconds S] [--json FILE]

The images are drawn (smooth noise, about 60 kB each) and packed as MXNet's records and as Caffe's data base.
Shown are the median and the 10th and 90th percentile over ten parts of the time.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from netweave.data import Loader, Order, open_source
from netweave.data.pack import pack
from netweave.data.sources.images import ImageFolder
from netweave.engine import ThreadedEngine
from netweave.job import DataSource

IMAGES = 128
BATCH = 32
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


def measure(source: DataSource, threads: int, seconds: float) -> list[float]:
    """Return images per second in each tenth of the time."""
    with ThreadedEngine({"input": threads}) as engine:
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
        with loader:
            for _ in range(4):
                loader.take()
            rates = []
            for _ in range(10):
                count, began = 0, time.perf_counter()
                while time.perf_counter() - began < seconds / 10:
                    loader.take()
                    count += BATCH
                rates.append(count / (time.perf_counter() - began))
    return rates


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "images"
        draw(images)
        num_bytes = sum(path.stat().st_size for path in images.rglob("*.jpg")) / IMAGES
        figures: dict[str, dict[str, float]] = {}
        for kind, name in [("recordio", "images.rec"), ("lmdb", "images_lmdb")]:
            target = Path(folder) / name
            pack(ImageFolder(str(images)), target, kind)
            source = DataSource(kind, ("data", "label"), BATCH, {"path": str(target)}, TRANSFORMS)
            rates = measure(source, options.threads, options.seconds)
            low, median, high = np.percentile(rates, (10, 50, 90)).round().tolist()
            figures[kind] = {"p10": low, "median": median, "p90": high}
            print(f"{kind:10s} {median:7.0f} images/s  ({low:.0f} to {high:.0f})")
    if options.json:
        about = {"threads": options.threads, "bytes": num_bytes, "machine": platform.machine()}
        options.json.write_text(json.dumps({**about, "unit": "images/s", "figures": figures}, indent=2))


if __name__ == "__main__":
    main()

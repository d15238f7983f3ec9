"""Writes the digits that the MLP learns from, as ``make create`` of SINGA does: two files ``*_data.bin``.

    python make_data.py                  # scikit-learn's 1,797 digits, enlarged from 8 x 8 to 28 x 28
    python make_data.py --mnist FOLDER   # the 70,000 of MNIST, where its four idx files are at hand

The split is that of ``examples/lenet``. With MNIST set ``test_steps: 166`` in ``job.conf``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import netweave
from examples.lenet.make_data import MNIST, digits, idx_file

HERE = Path(__file__).parent


def write(folder: Path, mnist: Path | None = None) -> None:
    """Write both stores into a folder; those that are there are left alone."""
    made = None if mnist else digits()
    for name, file in MNIST.items():
        target = folder / f"{name}_data.bin"
        shown = os.path.relpath(target)
        if target.exists():
            print(f"{shown} is there already; remove it to have it made anew")
            continue
        source = made[name] if made else idx_file(mnist, file)
        print(f"{shown}: {netweave.pack(source, target, kind='kvfile'):,} images")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mnist", metavar="FOLDER", type=Path, help="take the idx files of MNIST in FOLDER")
    write(HERE, parser.parse_args().mnist)

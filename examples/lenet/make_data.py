"""Writes the images that LeNet learns from, as Caffe stores them: ``train_lmdb`` and ``test_lmdb``.

    python make_data.py                  # scikit-learn's 1,797 digits, enlarged from 8 x 8 to 28 x 28
    python make_data.py --mnist FOLDER   # the 70,000 of MNIST, where its four idx files are at hand

The digits are split once and for all: 360 for testing, as many of each class as there are among all. With
MNIST set ``test_iter: 167`` and ``max_iter: 10000`` in ``solver.prototxt``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import cv2
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import netweave

HERE = Path(__file__).parent
SIDE = 28
NUM_TEST = 360
MNIST = {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}


def digits() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return images (number, 1, 28, 28; 0 to 255) and labels, for training and for testing."""
    found = load_digits()
    images = np.stack([enlarged(image) for image in found.images])[:, None]
    train, test, train_labels, test_labels = train_test_split(
        images, found.target, test_size=NUM_TEST, stratify=found.target, random_state=42
    )
    return {"train": (train, train_labels), "test": (test, test_labels)}


def enlarged(image: np.ndarray) -> np.ndarray:
    """Return an image of 8 x 8 values from 0 to 16 as one of 28 x 28 from 0 to 255."""
    large = cv2.resize(image.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    return np.rint(large * (255 / 16)).astype(np.uint8)


def write(folder: Path, mnist: Path | None = None, *, ending: str = "_lmdb", kind: str | None = None) -> None:
    """Write a store for training and one for testing into a folder; those that are there are left alone.

    Args:
        folder: The folder.
        mnist: That of MNIST's idx files; scikit-learn's digits are taken without it.
        ending: What follows ``train`` and ``test`` in the stores' names.
        kind: See ``netweave.pack``.
    """
    sets = None if mnist else digits()
    for name, file in MNIST.items():
        target = folder / f"{name}{ending}"
        shown = os.path.relpath(target)
        if target.exists():
            print(f"{shown} is there already; remove it to have it made anew")
            continue
        source = sets[name] if sets else idx_file(mnist, file)
        print(f"{shown}: {netweave.pack(source, target, kind=kind):,} images")


def idx_file(folder: Path, name: str) -> Path:
    """Return an idx file of MNIST's, unpacked or not."""
    plain = folder / name
    return plain if plain.exists() else folder / f"{name}.gz"


def folder_of_mnist(description: str) -> Path | None:
    """Return what the command line says of MNIST."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--mnist", metavar="FOLDER", type=Path, help="take the idx files of MNIST in FOLDER")
    return parser.parse_args().mnist


if __name__ == "__main__":
    write(HERE, folder_of_mnist(__doc__))

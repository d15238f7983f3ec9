"""``mx.test_utils``: what examples use of it. Nothing is downloaded."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet.context import current_context
from netweave.mxnet.ndarray.array import NDArray
from netweave.training.data.sources.arrays import read_idx

FILES = {
    "train_data": "train-images-idx3-ubyte",
    "train_label": "train-labels-idx1-ubyte",
    "test_data": "t10k-images-idx3-ubyte",
    "test_label": "t10k-labels-idx1-ubyte",
}
"""MNIST's files; ``.gz`` does, too."""


def default_context() -> Any:
    """Return the context where nobody says."""
    return current_context()


def get_mnist(path: str = "data") -> dict[str, np.ndarray]:
    """Return MNIST from its four files: images (N, 1, 28, 28) from 0 to 1, and labels.

    Raises:
        UsageError: A file is not there.
    """
    arrays = {}
    for key, name in FILES.items():
        places = [Path(folder) / (name + end) for folder in (path, ".") for end in ("", ".gz")]
        place = next((one for one in places if one.exists()), None)
        if place is None:
            raise UsageError(
                f"MNIST's {name} is not in {Path(path).resolve()}; nothing is downloaded here: put the four "
                "files of MNIST there"
            )
        array = read_idx(str(place))
        arrays[key] = (
            array.reshape(len(array), 1, *array.shape[1:]).astype(np.float32) / 255
            if "data" in key
            else array.astype(np.int32)
        )
    return arrays


def get_mnist_ubyte(path: str = "data") -> None:
    """Look for MNIST's files.

    Raises:
        UsageError: A file is not there.
    """
    get_mnist(path)


def get_mnist_iterator(
    batch_size: int, input_shape: Any, num_parts: int = 1, part_index: int = 0, path: str = "data"
) -> Any:
    """Return the iterators for training and test on MNIST's files."""
    from netweave.mxnet.io import MNISTIter

    get_mnist(path)
    iterators = []
    for images, labels in (("train_data", "train_label"), ("test_data", "test_label")):
        iterators.append(
            MNISTIter(
                image=f"{path}/{FILES[images]}",
                label=f"{path}/{FILES[labels]}",
                batch_size=batch_size,
                shuffle=images == "train_data",
                flat=len(input_shape) != 3,
                num_parts=num_parts,
                part_index=part_index,
            )
        )
    return tuple(iterators)


def get_cifar10() -> None:
    """Look for CIFAR-10's records in ``data/cifar``.

    Raises:
        UsageError: A file is not there.
    """
    for name in ("train.rec", "test.rec", "train.lst", "test.lst"):
        path = Path("data") / "cifar" / name
        if not path.exists():
            raise UsageError(
                f"{path} is not there, and nothing is downloaded here; put CIFAR-10's records there"
            )


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, **kwargs: Any
) -> str:
    """Return the file of an address if it is there already.

    Raises:
        UsageError: It is not; nothing is downloaded here.
    """
    name = fname or url.rpartition("/")[2]
    path = Path(dirname or ".") / name
    if not path.exists():
        raise UsageError(f"{path} is not there, and nothing is downloaded here; fetch it from {url}")
    logging.info("%s exists, skipping download", path)
    return str(path)


def list_gpus() -> list[int]:
    """Return the numbers of the GPUs that torch sees."""
    from netweave.mxnet.context import num_gpus

    return list(range(num_gpus()))


def assert_almost_equal(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-20, **kwargs: Any) -> None:
    """Compare arrays.

    Raises:
        AssertionError: They differ by more.
    """
    left, right = (one.asnumpy() if isinstance(one, NDArray) else np.asarray(one) for one in (a, b))
    np.testing.assert_allclose(left, right, rtol, atol)


def same(a: Any, b: Any) -> bool:
    """Return whether arrays are equal."""
    return bool(np.array_equal(a, b))


def almost_equal(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-20) -> bool:
    """Return whether arrays are about equal."""
    return bool(np.allclose(a, b, rtol, atol))


def reldiff(a: np.ndarray, b: np.ndarray) -> float:
    """Return the sum of absolute differences over the sum of absolute values."""
    total = float(np.abs(a).sum())
    return float(np.abs(a - b).sum()) / total if total else 0.0


def rand_ndarray(shape: Any, **kwargs: Any) -> NDArray:
    """Return an array of numbers between -1 and 1."""
    from netweave.mxnet.ndarray import random

    return random.uniform(-1, 1, shape)  # type: ignore[no-any-return]  # mx.random is made of a table


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.test_utils", name, [key for key in globals() if not key.startswith("_")])

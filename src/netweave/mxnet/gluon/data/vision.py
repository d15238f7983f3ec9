"""``gluon.data.vision``: MNIST and CIFAR from their files, and folders of images."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.mxnet import image
from netweave.mxnet import ndarray as nd
from netweave.mxnet.gluon.data import transforms as transforms
from netweave.mxnet.gluon.data.dataset import Dataset
from netweave.training.data.sources.arrays import read_idx


class MNIST(Dataset):
    """MNIST's images (28, 28, 1) and labels, from its files; nothing is downloaded.

    Args:
        root: The folder of the files.
        train: Whether the training records.
        transform: A function of image and label.

    Raises:
        UsageError: The files are not there.
    """

    default = "mnist"

    def __init__(self, root: str | None = None, train: bool = True, transform: Any = None) -> None:
        folder = Path(root or f"~/.mxnet/datasets/{self.default}").expanduser()
        start = "train" if train else "t10k"
        names = [f"{start}-images-idx3-ubyte", f"{start}-labels-idx1-ubyte"]
        images, labels = (read_idx(_find(folder, name)) for name in names)
        self._transform = transform
        self._label = labels.astype(np.int32)
        self._data = nd.array(images[..., None], dtype="uint8")

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, idx: int) -> Any:
        record = self._data[idx], self._label[idx]
        return record if self._transform is None else self._transform(*record)


class FashionMNIST(MNIST):
    """The same of clothes."""

    default = "fashion-mnist"


class CIFAR10(Dataset):
    """CIFAR-10's images (32, 32, 3) and labels, from its binary files; nothing is downloaded.

    Args:
        root: The folder of the files.
        train: Whether the training records.
        transform: A function of image and label.

    Raises:
        UsageError: The files are not there.
        ReadError: A file is cut off.
    """

    default = "cifar10"
    files = (tuple(f"data_batch_{number}.bin" for number in range(1, 6)), ("test_batch.bin",))
    num_labels, label = 1, 0

    def __init__(self, root: str | None = None, train: bool = True, transform: Any = None) -> None:
        folder = Path(root or f"~/.mxnet/datasets/{self.default}").expanduser()
        size = self.num_labels + 3 * 32 * 32
        rows = [_rows(folder / name, size) for name in self.files[0 if train else 1]]
        records = np.concatenate(rows)
        pixels = records[:, self.num_labels :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self._transform = transform
        self._label = records[:, self.label].astype(np.int32)
        self._data = nd.array(pixels, dtype="uint8")

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, idx: int) -> Any:
        record = self._data[idx], self._label[idx]
        return record if self._transform is None else self._transform(*record)


class CIFAR100(CIFAR10):
    """The same of CIFAR-100, with its 20 coarse classes, or its 100 fine ones."""

    default = "cifar100"
    files = (("train.bin",), ("test.bin",))
    num_labels = 2

    def __init__(
        self, root: str | None = None, fine_label: bool = False, train: bool = True, transform: Any = None
    ) -> None:
        self.label = int(fine_label)
        super().__init__(root, train, transform)


def _rows(path: Path, size: int) -> np.ndarray:
    if not path.exists():
        raise UsageError(
            f"{path} is not there, and nothing is downloaded here; put CIFAR's binary files there"
        )
    content = np.frombuffer(path.read_bytes(), np.uint8)
    if not content.size or content.size % size:
        raise ReadError(
            f"has {content.size} bytes, expected records of {size}; is it cut off?", place=str(path)
        )
    return content.reshape(-1, size)


class ImageFolderDataset(Dataset):
    """Images in folders: ``root/CLASS/FILE``, with the number of the class as their label.

    Args:
        root: The folder of the classes.
        flag: 0 for grey images, 1 for colour.
        transform: A function of image and label.

    Attributes:
        synsets: Names of the classes, by their number.
        items: (file, label) of each image.

    Raises:
        UsageError: There is no such folder.
    """

    suffixes = (".jpg", ".jpeg", ".png")

    def __init__(self, root: str, flag: int = 1, transform: Any = None) -> None:
        folder = Path(root).expanduser()
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; expected one with a folder of images for each class")
        self._flag, self._transform = flag, transform
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
        classes = [path for path in entries if path.is_dir()]
        for path in entries:
            if path not in classes:
                warnings.warn(f"{path} is not a folder and is left out", stacklevel=2)
        self.synsets = [path.name for path in classes]
        self.items: list[tuple[str, int]] = []
        for label, each in enumerate(classes):
            for file in sorted(each.iterdir(), key=lambda path: path.name):
                if file.suffix.lower() in self.suffixes:
                    self.items.append((str(file), label))
                else:
                    kinds = ", ".join(self.suffixes)
                    warnings.warn(f"{file} is left out: images are {kinds}", stacklevel=2)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, idx: int) -> Any:
        file, label = self.items[idx]
        record = image.imread(file, self._flag), label
        return record if self._transform is None else self._transform(*record)


def _find(folder: Path, name: str) -> str:
    for place in (folder / name, folder / f"{name}.gz"):
        if place.exists():
            return str(place)
    raise UsageError(f"{folder / name} is not there, and nothing is downloaded here; put MNIST's files there")


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    known = ["CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "MNIST", "transforms"]
    raise missing("gluon.data.vision", name, known)

"""``gluon.data.vision``: MNIST from its files, and transforms of images."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import image
from netweave.mxnet import ndarray as nd
from netweave.mxnet.gluon.data.dataset import Dataset
from netweave.mxnet.ndarray.array import NDArray
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


class transforms:  # noqa: N801 - a namespace, as MXNet has it
    """Functions of images."""

    class Compose:
        """Functions one after the other."""

        def __init__(self, transforms: list[Any]) -> None:
            self._all = transforms

        def __call__(self, x: Any) -> Any:
            """Apply them."""
            for one in self._all:
                x = one(x)
            return x

    class ToTensor:
        """From bytes (height, width, channels) to numbers from 0 to 1 (channels, height, width)."""

        def __call__(self, x: NDArray) -> NDArray:
            """Apply it."""
            return (x.astype("float32") / 255.0).transpose((2, 0, 1))

    class Cast:
        """Another element type."""

        def __init__(self, dtype: Any = "float32") -> None:
            self._dtype = dtype

        def __call__(self, x: NDArray) -> NDArray:
            """Apply it."""
            return x.astype(self._dtype)

    class Normalize:
        """(image - mean) / std, by channel."""

        def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
            shape = (-1, 1, 1)
            self._mean = np.asarray(mean, np.float32).reshape(shape)
            self._std = np.asarray(std, np.float32).reshape(shape)

        def __call__(self, x: NDArray) -> NDArray:
            """Apply it."""
            return (x - nd.array(self._mean)) / nd.array(self._std)

    class Resize:
        """Another size."""

        def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
            self._size, self._keep, self._interp = size, keep_ratio, interpolation

        def __call__(self, x: NDArray) -> NDArray:
            """Apply it."""
            if self._keep:
                return image.resize_short(x, self._size, self._interp)
            width, height = (self._size,) * 2 if isinstance(self._size, int) else self._size
            return image.imresize(x, width, height, self._interp)


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("gluon.data.vision", name, ["MNIST", "FashionMNIST", "ImageFolderDataset", "transforms"])

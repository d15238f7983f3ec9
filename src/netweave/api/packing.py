"""Packing records into training files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.api.arguments import check_file
from netweave.errors import UsageError
from netweave.runtime.memory_plan import parse_bytes
from netweave.training.data import Source
from netweave.training.data.named import Named, open_named
from netweave.training.data.pack import pack as pack_source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.transforms.geometry import Resize

if TYPE_CHECKING:
    import numpy as np

KINDS = {".rec": "recordio", ".h5": "hdf5", ".hdf5": "hdf5", ".kvfile": "kvfile"}
"""The format of a target by its suffix; any other target is an LMDB."""


def pack(
    source: str | Path | Source | Sequence[np.ndarray],
    target: str | Path,
    *,
    kind: str | None = None,
    read_as: str | None = None,
    labels: str | None = None,
    root: str | None = None,
    shape: Sequence[int] = (),
    resize: Sequence[int] = (),
    gray: bool = False,
    shuffle: bool = False,
    seed: int = 0,
    encode: str | None = None,
    quality: int = 95,
    split_size: str | int | None = None,
    mean: str | Path | None = None,
) -> int:
    """Pack records into one file or database for training, or into several, and return their number.

    Image files are copied unchanged, unless they are resized or converted to gray.

    Args:
        source: A folder with one subfolder of images per class, a list of images (Caffe's ``.txt``, MXNet's
            ``.lst``), an LMDB, ``.rec``, ``.h5``, ``.npz``, ``.npy``, ``.csv``, idx or CIFAR file, local or
            remote (``s3://``); or arrays of images (N, C, H, W) and labels.
        target: File or folder to create; an existing one is never overwritten.
        kind: ``lmdb``, ``recordio``, ``hdf5``, ``mnist`` or ``kvfile`` (SINGA); None to derive it from the
            target's name.
        read_as: Format of the source; None to derive it from the source's name.
        labels: A file of labels, if they are separate.
        root: The folder that paths in a list are relative to; by default the folder of the list.
        shape: Shape of a record, if the source has rows of numbers.
        resize: Height and width of all images, or one number for the shorter side.
        gray: Convert to one channel.
        shuffle: Write the records in random order.
        seed: Seed of the random order.
        encode: Encode pixels as image files with this suffix, ``.png`` or ``.jpg``.
        quality: JPEG quality, 1 to 100.
        split_size: Write several files of at most about this size, bytes or a text such as ``64MB``:
            ``train-00000.rec``, ``train-00001.rec``, ... for ``train.rec``. They are read as one under the
            target's name.
        mean: File to write the mean of all images to, as they are packed: for Caffe if its name ends in
            ``.binaryproto``, else for SINGA.

    Raises:
        UsageError: The kind is unknown, the target exists, or the source is ambiguous.
        SourceError: A record cannot be read; nothing is left behind.
        WriteError: The target cannot be written; nothing is left behind.
    """
    place = check_file(target, what="target")
    with _opened(source, read_as, Named(labels, root, tuple(shape), "gray" if gray else None)) as records:
        return pack_source(
            records,
            place,
            kind or KINDS.get(place.suffix, "lmdb"),
            resize=_resize(resize),
            gray=gray,
            shuffle=shuffle,
            seed=seed,
            encode=encode is not None,
            suffix=encode or ".png",
            quality=quality,
            mean=Path(mean) if mean else None,
            split_bytes=parse_bytes(split_size) if isinstance(split_size, str) else split_size,
        )


def _opened(source: str | Path | Source | Sequence[np.ndarray], kind: str | None, said: Named) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        return open_named(str(source), kind, said)
    if not isinstance(source, Sequence):
        raise UsageError(
            f"source is of type {type(source).__name__}, expected the name of a file or folder, or a list of "
            "arrays"
        )
    return Arrays(*source)


def _resize(sizes: Sequence[int]) -> Resize | None:
    if not sizes:
        return None
    if len(sizes) > 2 or min(sizes) < 1:
        raise UsageError(
            f"cannot resize to {'x'.join(map(str, sizes))}; give HEIGHTxWIDTH, or the shorter side"
        )
    return Resize(shorter=sizes[0]) if len(sizes) == 1 else Resize(height=sizes[0], width=sizes[1])

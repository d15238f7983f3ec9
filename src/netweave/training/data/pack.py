"""Packing: the records of any source into one file or data base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.training.data.mean_file import MeanImage
from netweave.training.data.order import Order
from netweave.training.data.writers import make_writer

if TYPE_CHECKING:
    from netweave.training.data.source import Source
    from netweave.training.data.transforms.geometry import Resize


def pack(
    source: Source,
    target: Path,
    kind: str,
    *,
    resize: Resize | None = None,
    shuffle: bool = False,
    seed: int = 0,
    gray: bool = False,
    encode: bool = False,
    suffix: str = ".png",
    quality: int = 95,
    split_bytes: int | None = None,
    mean: Path | None = None,
) -> int:
    """Write the records of a source; return how many.

    An image that is a file stays the file it is, unless it is resized or made gray. A kind that can hold
    bare pixels (``lmdb``, ``hdf5``, ``mnist``, ``kvfile``) is given them where there is no file.

    Args:
        source: The records.
        target: File or folder to be made.
        kind: One of ``WRITERS``.
        resize: What is done to each image first.
        shuffle: Whether they are written in a random order.
        seed: Of that order.
        gray: Whether images are kept as one channel.
        encode: Whether pixels become files also where the kind can hold them bare.
        suffix: What pixels are encoded as, where they are.
        quality: Of JPEG, 1 to 100.
        split_bytes: Largest size of a file, where records are spread over several; None for one.
        mean: File for the mean of all images, as they are packed; None for none.

    Raises:
        UsageError: There is no such kind, or the target is there already.
        SourceError: A record cannot be read; nothing is left behind.
        WriteError: The target cannot be written; nothing is left behind.
    """
    means = MeanImage(mean) if mean else None
    order = Order(num_records=len(source), batch_size=1, shuffle=shuffle, seed=seed, groups=source.groups)
    with make_writer(kind, target, split_bytes=split_bytes, suffix=suffix, quality=quality) as writer:
        for place, index in enumerate(order.epoch(0).tolist()):
            item = source.item(index)
            item = item.in_gray() if gray else item
            item = item.resized(resize, order.generator(place)) if resize else item
            if means:
                means.add(item)
            writer.write(item.as_file(suffix, quality) if encode else item)
        writer.finish()
        if means:
            means.write()
        return writer.count

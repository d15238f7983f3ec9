"""Batches of images in ``.rec`` files, for classification and for detection, with MXNet's augmentation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.io.detection_settings import detection_transforms
from netweave.mxnet.io.image_settings import image_transforms
from netweave.mxnet.io.loaded import MXDataIter, drop_ignored, require_known, share_of_worker
from netweave.training.data.sources.detection_records import DetectionRecords, join_label
from netweave.training.data.sources.recordio import RecordIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.training.data import Source


SIZES = 4
"""Numbers before each label of objects: channels, height, width, length of the label."""


def ImageRecordIter(  # noqa: N802 - MXNet's name
    path_imgrec: str,
    data_shape: Sequence[int],
    batch_size: int = 1,
    path_imgidx: str | None = None,
    path_imglist: str | None = None,
    label_width: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    preprocess_threads: int | None = None,
    data_name: str = "data",
    label_name: str = "softmax_label",
    dtype: Any = "float32",
    **settings: Any,
) -> MXDataIter:
    """Return batches of images from a ``.rec`` file, with MXNet's settings for augmentation.

    Raises:
        ReadError: A file is missing or damaged.
        UsageError: There is no such setting.
    """
    drop_ignored(settings)
    if settings.get("mean_img") and not Path(settings["mean_img"]).exists():
        kept = _without_arithmetic(settings)
        _write_mean(settings["mean_img"], ImageRecordIter(path_imgrec, data_shape, batch_size, **kept))
    source = share_of_worker(
        RecordIO(
            path_imgrec,
            index=path_imgidx or None,
            color="gray" if next(iter(data_shape)) == 1 else "rgb",
            label_width=int(label_width),
            labels=path_imglist or None,
        ),
        settings,
    )
    transforms = image_transforms(tuple(int(size) for size in data_shape), settings)
    require_known("ImageRecordIter", settings)
    return MXDataIter(
        source,
        batch_size=int(batch_size),
        names=(data_name, label_name),
        shuffle=bool(shuffle),
        seed=int(seed),
        transforms=transforms,
        threads=None if preprocess_threads is None else max(1, int(preprocess_threads)),
        dtype=np.dtype(dtype).name,
    )


def _without_arithmetic(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if not key.startswith(("mean_", "std_", "scale"))}


def _write_mean(path: str, batches: MXDataIter) -> None:
    """Write the mean of all images, cut as they are for training, where there is none yet, as MXNet does."""
    total, count = np.zeros(batches.provide_data[0].shape[1:], np.float64), 0
    for batch in batches:
        images = batch.data[0].asnumpy()[: batches.batch_size - (batch.pad or 0)]
        total, count = total + images.sum(0, dtype=np.float64), count + len(images)
    nd.save(path, {"mean_img": nd.array(total / max(count, 1))})


def ImageRecordUInt8Iter(path_imgrec: str, data_shape: Sequence[int], **settings: Any) -> MXDataIter:  # noqa: N802
    """Return batches of images as bytes."""
    return ImageRecordIter(path_imgrec, data_shape, dtype="uint8", **settings)


ImageRecordIter_v1 = ImageRecordIter


class _DetectionIter(MXDataIter):
    """Batches whose labels are those of ``ImageDetRecordIter``.

    A label is the sizes of the image (channels, height, width), the length of the record's own label after
    augmentation, that label, and the padding.

    Args:
        label_width: Numbers of the padded label of a record.
        label_pad_value: What fills it up.
        settings: As for ``MXDataIter``.
    """

    def __init__(self, source: Source, *, label_width: int, label_pad_value: float, **settings: Any) -> None:
        super().__init__(source, others=("header",), **settings)
        self._width, self._pad_value = label_width, label_pad_value

    def _label_shape(self) -> tuple[int, ...]:
        return (SIZES + self._width,)

    def _parts(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        data, objects = super()._parts(arrays)
        labels = np.full((len(data), SIZES + self._width), self._pad_value, np.float32)
        labels[:, : SIZES - 1] = data.shape[1:]
        for label, rows, header in zip(labels, objects, arrays["header"], strict=True):
            own = join_label(header, rows)
            label[SIZES - 1] = len(own)
            label[SIZES : SIZES + len(own)] = own
        return data, labels


def ImageDetRecordIter(  # noqa: N802 - MXNet's name
    path_imgrec: str,
    data_shape: Sequence[int],
    batch_size: int,
    path_imglist: str | None = None,
    label_width: int = -1,
    label_pad_width: int = 0,
    label_pad_value: float = -1.0,
    shuffle: bool = False,
    seed: int = 0,
    preprocess_threads: int | None = None,
    data_name: str = "data",
    label_name: str = "softmax_label",
    dtype: Any = "float32",
    **settings: Any,
) -> MXDataIter:
    """Return batches of images with objects from a ``.rec`` file, with MXNet's augmentation for detectors.

    Each label has four numbers before the record's own: channels, height and width of the image, and the
    length of the record's label without padding.

    Args:
        path_imgrec: The records.
        data_shape: Sizes of the data: (channels, height, width).
        batch_size: Records in a batch.
        path_imglist: A list whose labels replace those in the records.
        label_width: Numbers in each label; -1 where records differ.
        label_pad_width: Numbers to which labels are filled up; 0 or -1 for those of the longest.
        label_pad_value: What fills them up.
        shuffle: Whether each epoch has an order of its own.
        seed: Of what is drawn.
        preprocess_threads: Threads that make batches.
        data_name: Name of the data.
        label_name: Name of the labels.
        dtype: Element type of the data.
        settings: MXNet's settings for augmentation.

    Raises:
        ReadError: A file is missing or damaged, or a label is not one of objects.
        UsageError: There is no such setting, or labels are longer than ``label_pad_width``.
    """
    drop_ignored(settings)
    shape = tuple(int(size) for size in data_shape)
    if settings.get("mean_img") and not Path(settings["mean_img"]).exists():
        kept = _without_arithmetic(settings)
        batches = ImageDetRecordIter(path_imgrec, shape, batch_size, path_imglist, **kept)
        _write_mean(settings["mean_img"], batches)
    transforms = detection_transforms(shape, settings)
    source = DetectionRecords(
        path_imgrec,
        color="gray" if shape[0] == 1 else "rgb",
        label_width=int(label_width),
        labels=path_imglist or None,
    )
    if 0 < label_pad_width < source.longest:
        raise UsageError(
            f"{path_imgrec}: label_pad_width is {label_pad_width}, and the longest label has "
            f"{source.longest} numbers; give at least that, or -1"
        )
    records = share_of_worker(source, settings)
    require_known("ImageDetRecordIter", settings)
    return _DetectionIter(
        records,
        label_width=max(int(label_pad_width), source.longest),
        label_pad_value=float(label_pad_value),
        batch_size=int(batch_size),
        names=(data_name, label_name),
        shuffle=bool(shuffle),
        seed=int(seed),
        transforms=transforms,
        threads=None if preprocess_threads is None else max(1, int(preprocess_threads)),
        dtype=np.dtype(dtype).name,
    )

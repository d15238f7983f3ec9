"""Batches of records in files: the iterators that MXNet writes in C++, over Netweave's sources and loader."""

from __future__ import annotations

import math
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.data import Loader, Order, Source
from netweave.data.sources.csv import CSV
from netweave.data.sources.idx import MNIST
from netweave.data.sources.recordio import RecordIO
from netweave.engine import ThreadedEngine
from netweave.errors import ReadError, UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.io.batch import DataBatch, DataDesc, DataIter
from netweave.mxnet.io.image_settings import image_transforms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.data import Record


class MXDataIter(DataIter):
    """Batches of a source, made ahead of time.

    Args:
        source: The records: data and label.
        batch_size: Records in a batch.
        names: Names of data and label.
        shuffle: Whether each epoch has an order of its own.
        seed: Of what is drawn.
        transforms: What happens to images.
        threads: Threads that make batches; None to find the number by itself.
        dtype: Element type of the data.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        names: tuple[str, str],
        shuffle: bool = False,
        seed: int = 0,
        transforms: Sequence[Mapping[str, Any]] = (),
        threads: int | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__(batch_size)
        self._names, self._dtype = names, dtype
        count = len(source)
        self._order = Order(
            num_records=count, batch_size=min(batch_size, count), shuffle=shuffle, seed=seed, last="pad"
        )
        self._engine = ThreadedEngine()
        self._loader = Loader(
            source, names, engine=self._engine, order=self._order, transforms=transforms, threads=threads
        )
        # also at the end of the program: threads that still run then would abort it
        weakref.finalize(self, _close, self._loader, self._engine)
        self._per_epoch = math.ceil(count / self._order.batch_size)
        self._epoch = self._given = 0

    @property
    def provide_data(self) -> list[DataDesc]:
        """Names and sizes of the data."""
        return self._describe(self._names[0], self._dtype)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Names and sizes of the labels."""
        return self._describe(self._names[1], "float32")

    def _describe(self, name: str, dtype: str) -> list[DataDesc]:
        return [DataDesc(name, (self.batch_size, *self._loader.shapes[name][1:]), np.dtype(dtype))]

    def reset(self) -> None:
        """Begin a further epoch."""
        if self._given != self._per_epoch:
            self._loader.restore({"batch": (self._epoch + 1) * self._per_epoch})
        self._epoch += 1
        self._given = 0

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
            ReadError: A record is damaged.
        """
        if self._given == self._per_epoch:
            raise StopIteration
        batch = self._loader.take()
        self._given += 1
        data, label = (np.array(batch.arrays[name]) for name in self._names)
        pad = batch.padding
        if len(data) < self.batch_size:  # fewer records than a batch: they are repeated
            pad += self.batch_size - len(data)
            data, label = (np.resize(one, (self.batch_size, *one.shape[1:])) for one in (data, label))
        index = self._order.plan(batch.number).records
        arrays = [nd.array(data, dtype=self._dtype)], [nd.array(label)]
        return DataBatch(*arrays, pad=pad, index=index)


def _close(loader: Loader, engine: ThreadedEngine) -> None:
    loader.close()
    engine.close()


class _Part(Source):
    """The share of a source that a worker reads."""

    stored = False  # the source has its own border

    def __init__(self, source: Source, number: int, count: int) -> None:
        if not 0 <= number < count:
            raise UsageError(f"part_index is {number}, expected 0 to {count - 1} (num_parts)")
        self._source = source
        size = len(source)
        self._start, self._stop = size * number // count, size * (number + 1) // count
        self.place, self.images, self.color = source.place, source.images, source.color

    def __len__(self) -> int:
        return self._stop - self._start

    def read(self, index: int) -> Record:
        """Return a record."""
        return self._source.read(self._start + index)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def _share(source: Source, settings: dict[str, Any]) -> Source:
    number, count = int(settings.pop("part_index", 0)), int(settings.pop("num_parts", 1))
    return _Part(source, number, count) if count > 1 else source


def _refuse(kind: str, settings: Mapping[str, Any]) -> None:
    if settings:
        raise UsageError(f"{kind} has no setting {', '.join(settings)}; is one misspelt?")


def MNISTIter(  # noqa: N802 - MXNet's name
    image: str = "./train-images-idx3-ubyte",
    label: str = "./train-labels-idx1-ubyte",
    batch_size: int = 128,
    shuffle: bool = True,
    flat: bool = False,
    seed: int = 0,
    silent: bool = False,
    input_shape: Any = None,
    data_name: str = "data",
    label_name: str = "softmax_label",
    **settings: Any,
) -> MXDataIter:
    """Return batches of MNIST: pixels times 1/256.

    Raises:
        ReadError: A file is missing or of another kind.
    """
    _settle(settings)
    found = [_existing(path) for path in (image, label)]
    source = _share(MNIST(found[0], found[1], flat=bool(flat)), settings)
    _refuse("MNISTIter", settings)
    return MXDataIter(
        source,
        batch_size=int(batch_size),
        names=(data_name, label_name),
        shuffle=bool(shuffle),
        seed=int(seed),
        transforms=[{"kind": "scale", "factor": 1.0 / 256.0}],
    )


def _existing(path: str) -> str:
    """Return a file, or the one with ``.gz``: scripts name the unpacked one, downloads are packed."""
    return path if Path(path).exists() or not Path(f"{path}.gz").exists() else f"{path}.gz"


def CSVIter(  # noqa: N802 - MXNet's name
    data_csv: str,
    data_shape: Sequence[int],
    label_csv: str | None = None,
    label_shape: Sequence[int] = (1,),
    batch_size: int = 1,
    dtype: Any = "float32",
    data_name: str = "data",
    label_name: str = "softmax_label",
    **settings: Any,
) -> MXDataIter:
    """Return batches of rows of numbers.

    Raises:
        ReadError: A file is missing, or has something that is no number.
    """
    _settle(settings)
    source = _share(CSV(data_csv, tuple(data_shape), label_csv or None, tuple(label_shape)), settings)
    _refuse("CSVIter", settings)
    names = (data_name, label_name)
    return MXDataIter(source, batch_size=int(batch_size), names=names, dtype=np.dtype(dtype).name)


def LibSVMIter(  # noqa: N802 - MXNet's name
    data_libsvm: str,
    data_shape: Sequence[int],
    label_libsvm: str | None = None,
    label_shape: Sequence[int] = (1,),
    batch_size: int = 1,
    data_name: str = "data",
    label_name: str = "softmax_label",
    **settings: Any,
) -> MXDataIter:
    """Return batches of rows ``label index:value ...``, stored densely.

    Raises:
        ReadError: A file is missing, or damaged.
    """
    _settle(settings)
    labels = _LibSVM(label_libsvm, int(np.prod(label_shape))) if label_libsvm else None
    source = _share(_LibSVM(data_libsvm, int(np.prod(data_shape)), labels), settings)
    _refuse("LibSVMIter", settings)
    return MXDataIter(source, batch_size=int(batch_size), names=(data_name, label_name))


class _LibSVM(Source):
    """Rows ``label index:value ...``, made dense when they are read.

    Args:
        path: The file.
        width: Elements of a row.
        labels: Rows of another file, which are the labels.
    """

    def __init__(self, path: str, width: int, labels: _LibSVM | None = None) -> None:
        self.place, self._path, self._width, self._labels = path, path, width, labels
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ReadError(f"cannot be read: {error.strerror or error}", place=path) from error
        self._lines = [
            (number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()
        ]

    def __len__(self) -> int:
        return len(self._lines)

    def dense(self, index: int) -> tuple[float, np.ndarray]:
        """Return label and elements of a row."""
        number, fields = self._lines[index]
        row = np.zeros(self._width, np.float32)
        try:
            label = float(fields[0]) if ":" not in fields[0] else 0.0
            for place, value in (field.split(":") for field in fields if ":" in field):
                row[int(place)] = float(value)
        except (ValueError, IndexError) as error:
            raise ReadError(
                f"expected label and index:value with indices below {self._width}: {error}",
                place=f"{self._path}:{number}",
            ) from error
        return label, row

    def read(self, index: int) -> Record:
        """Return a record."""
        label, row = self.dense(index)
        return row, np.asarray(label, np.float32) if self._labels is None else self._labels.dense(index)[1]


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
    _settle(settings)
    if settings.get("mean_img") and not Path(settings["mean_img"]).exists():
        _write_mean(path_imgrec, data_shape, batch_size=int(batch_size), settings=settings)
    source = _share(
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
    _refuse("ImageRecordIter", settings)
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


def _write_mean(
    path: str, data_shape: Sequence[int], *, batch_size: int, settings: Mapping[str, Any]
) -> None:
    """Write the mean of all images, cut as they are for training, where there is none yet, as MXNet does."""
    kept = {key: value for key, value in settings.items() if not key.startswith(("mean_", "std_", "scale"))}
    total, count = np.zeros(tuple(data_shape), np.float64), 0
    for batch in ImageRecordIter(path, data_shape, batch_size=batch_size, **kept):
        images = batch.data[0].asnumpy()[: batch_size - (batch.pad or 0)]
        total, count = total + images.sum(0, dtype=np.float64), count + len(images)
    nd.save(settings["mean_img"], {"mean_img": nd.array(total / max(count, 1))})


def ImageRecordUInt8Iter(path_imgrec: str, data_shape: Sequence[int], **settings: Any) -> MXDataIter:  # noqa: N802
    """Return batches of images as bytes."""
    return ImageRecordIter(path_imgrec, data_shape, dtype="uint8", **settings)


ImageRecordIter_v1 = ImageRecordIter


def _settle(settings: dict[str, Any]) -> None:
    """Take out settings of MXNet's threads and buffers, which are found out here."""
    for name in (
        "data_shape",
        "prefetch_buffer",
        "round_batch",
        "ctx",
        "verbose",
        "device_id",
        "shuffle_chunk_size",
        "shuffle_chunk_seed",
        "silent",
        "num_epoch",
    ):
        settings.pop(name, None)

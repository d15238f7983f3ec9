"""``mx.image``: images as arrays (height, width, channels), what augments them, and batches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet import recordio
from netweave.mxnet.io import DataBatch, DataDesc, DataIter
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray
from netweave.runtime.images.decode import decode, resized

INTERPOLATIONS = ("nearest", "linear", "cubic", "area", "lanczos")


def imdecode(buf: bytes | NDArray, flag: int = 1, to_rgb: bool = True, out: Any = None) -> NDArray:
    """Return a decoded image.

    Args:
        buf: The file's bytes.
        flag: 0 for grey.
        to_rgb: Whether the channels are RGB; else BGR.
        out: As MXNet has it.

    Raises:
        ReadError: The bytes are no image.
    """
    content = buf.asnumpy().tobytes() if isinstance(buf, NDArray) else bytes(buf)
    color = "gray" if flag == 0 else "rgb" if to_rgb else "bgr"
    return nd.array(decode(content, color, lambda: "imdecode"), dtype="uint8")


def imread(filename: str, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """Return the image of a file.

    Raises:
        ReadError: The file cannot be read, or is no image.
    """
    try:
        content = Path(filename).read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=filename) from error
    return imdecode(content, flag, to_rgb)


def imresize(src: NDArray, w: int, h: int, interp: int = 1) -> NDArray:
    """Return an image in another size."""
    if interp not in range(len(INTERPOLATIONS)):
        raise UsageError(f"interp is {interp}, expected 0 to {len(INTERPOLATIONS) - 1}")
    pixels = src.asnumpy()
    pixels_out = resized(pixels, h, w, INTERPOLATIONS[interp], np.random.default_rng(0))
    return nd.array(pixels_out.reshape(h, w, pixels.shape[2]), dtype=pixels.dtype)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Return an image whose shorter side has a size."""
    height, width = src.shape[:2]
    new = (size * height // width, size) if height > width else (size, size * width // height)
    return imresize(src, new[1], new[0], interp)


def fixed_crop(src: NDArray, x0: int, y0: int, w: int, h: int, size: Any = None, interp: int = 2) -> NDArray:
    """Return a window of an image, scaled if ``size`` says so."""
    window = src[y0 : y0 + h, x0 : x0 + w]
    return (
        imresize(window, size[0], size[1], interp) if size is not None and (w, h) != tuple(size) else window
    )


def scale_down(src_size: Any, size: Any) -> tuple[int, int]:
    """Return a size made as much smaller as fits into another one."""
    width, height = size
    most_width, most_height = src_size
    if most_height < height:
        width, height = width * most_height / height, most_height
    if most_width < width:
        width, height = most_width, height * most_width / width
    return int(width), int(height)


def _crop(src: NDArray, size: Any, interp: int, share: Any) -> tuple[NDArray, tuple[int, int, int, int]]:
    height, width = src.shape[:2]
    own_width, own_height = scale_down((width, height), size)
    left, top = share(width - own_width), share(height - own_height)
    cropped = fixed_crop(src, left, top, own_width, own_height, size, interp)
    return cropped, (left, top, own_width, own_height)


def center_crop(src: NDArray, size: Any, interp: int = 2) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Return the middle of an image, and where it was: x, y, width, height."""
    return _crop(src, size, interp, lambda room: room // 2)


def random_crop(src: NDArray, size: Any, interp: int = 2) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Return a random window of an image, and where it was."""
    return _crop(src, size, interp, lambda room: int(random.generator().integers(room + 1)))


def random_size_crop(
    src: NDArray, size: Any, area: Any, ratio: tuple[float, float], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Return a random window of random area and shape, scaled to a size, and where it was.

    Args:
        src: The image.
        size: Width and height of the result.
        area: Smallest and largest share of the image; the smallest alone for up to 1.
        ratio: Smallest and largest width over height.
        interp: How it is scaled.
    """
    least, most = (area, 1.0) if isinstance(area, int | float) else area
    height, width = src.shape[:2]
    draw = random.generator()
    for _ in range(10):
        elements = draw.uniform(least, most) * height * width
        shape = np.exp(draw.uniform(*np.log(ratio)))
        own_width, own_height = (round(float(np.sqrt(elements * one))) for one in (shape, 1 / shape))
        if own_width <= width and own_height <= height:
            left, top = (int(draw.integers(room + 1)) for room in (width - own_width, height - own_height))
            cropped = fixed_crop(src, left, top, own_width, own_height, size, interp)
            return cropped, (left, top, own_width, own_height)
    return center_crop(src, size, interp)


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """Return (image - mean) / std."""
    centred: NDArray = src.astype("float32") - mean
    return centred if std is None else centred / std


GREY = np.array((0.299, 0.587, 0.114), np.float32)
MEAN, DEVIATION = (123.68, 116.28, 103.53), (58.395, 57.12, 57.375)
"""Those of ImageNet, for ``mean=True`` and ``std=True``."""


class Augmenter:
    """A function of an image (height, width, channels), by its settings; a subclass has ``__call__``."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image as it becomes."""
        raise NotImplementedError


class _Call(Augmenter):
    """A function with settings in a fixed order."""

    function: Callable[..., Any]

    def __init__(self, *settings: Any) -> None:
        super().__init__()
        self._settings = settings

    def __call__(self, src: NDArray) -> NDArray:
        made = type(self).function(src, *self._settings)
        changed: NDArray = made[0] if isinstance(made, tuple) else made
        return changed


def _jittered(src: NDArray, reach: float, base: Callable[[np.ndarray], Any]) -> NDArray:
    """Return an image whose differences to a base have a factor from 1 - reach to 1 + reach."""
    factor = 1.0 + random.generator().uniform(-reach, reach)
    pixels = src.asnumpy().astype(np.float32)
    return nd.array(pixels * factor + (1 - factor) * base(pixels))


def _ordered(src: NDArray, augmenters: Sequence[Augmenter]) -> NDArray:
    for number in random.generator().permutation(len(augmenters)):
        src = augmenters[number](src)
    return src


def _in_turn(src: NDArray, augmenters: Sequence[Augmenter]) -> NDArray:
    for one in augmenters:
        src = one(src)
    return src


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "BrightnessJitterAug": lambda src, reach: _jittered(src, reach, lambda x: 0.0),
    "CastAug": lambda src, typ="float32": src.astype(typ),
    "CenterCropAug": lambda src, size, interp=2: center_crop(src, size, interp),
    "ColorNormalizeAug": lambda src, mean, std: color_normalize(src, mean, std),
    "ContrastJitterAug": lambda src, reach: _jittered(src, reach, lambda x: (x @ GREY).mean()),
    "ForceResizeAug": lambda src, size, interp=2: imresize(src, size[0], size[1], interp),
    "HorizontalFlipAug": lambda src, p: src.flip(axis=1) if random.generator().random() < p else src,
    "RandomCropAug": lambda src, size, interp=2: random_crop(src, size, interp),
    "RandomOrderAug": _ordered,
    "RandomSizedCropAug": lambda src, size, area, ratio, interp=2: random_size_crop(
        src, size, area, ratio, interp
    ),
    "ResizeAug": lambda src, size, interp=2: resize_short(src, size, interp),
    "SaturationJitterAug": lambda src, reach: _jittered(src, reach, lambda x: (x @ GREY)[..., None]),
    "SequentialAug": _in_turn,
}
"""Functions of augmenters, by MXNet's name of their class."""

AUGMENTERS: dict[str, Any] = {
    name: type(name, (_Call,), {"function": staticmethod(function)}) for name, function in FUNCTIONS.items()
}


def CreateAugmenter(  # noqa: N802 - MXNet's name
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    inter_method: int = 2,
    **jitters: float,
) -> list[Any]:
    """Return augmenters in MXNet's order.

    Args:
        data_shape: Channels, height and width that images end with.
        resize: Length of the shorter side before the crop; 0 to leave it.
        rand_crop: Whether the crop is at random; else it is the middle.
        rand_resize: Whether it has a random area and shape.
        rand_mirror: Whether every second image is mirrored.
        mean: What is subtracted; True for that of ImageNet.
        std: What the rest is divided by; likewise.
        inter_method: How images are scaled.
        jitters: Largest change of ``brightness``, ``contrast`` and ``saturation``.

    Raises:
        UsageError: There is no such jitter.
    """
    make, size = AUGMENTERS, (data_shape[2], data_shape[1])
    made = [make["ResizeAug"](resize, inter_method)] if resize > 0 else []
    if rand_resize:
        made.append(make["RandomSizedCropAug"](size, 0.08, (3 / 4, 4 / 3), inter_method))
    else:
        made.append(make["RandomCropAug" if rand_crop else "CenterCropAug"](size, inter_method))
    made += [make["HorizontalFlipAug"](0.5)] if rand_mirror else []
    made.append(make["CastAug"]())
    kinds = ("brightness", "contrast", "saturation")
    unknown = [name for name, reach in jitters.items() if name not in kinds and reach]
    if unknown:
        raise UsageError(f"{unknown[0]} is not supported; of jitters there are {', '.join(kinds)}")
    changed = [make[f"{name.title()}JitterAug"](jitters[name]) for name in kinds if jitters.get(name)]
    made += [make["RandomOrderAug"](changed)] if changed else []
    if mean is not None or std is not None:
        mean = nd.array(MEAN) if mean is True else nd.zeros((3,)) if mean is None else mean
        made.append(make["ColorNormalizeAug"](mean, nd.array(DEVIATION) if std is True else std))
    return made


class ImageIter(DataIter):
    """Batches of images of a list or of records; the last one is filled up from the beginning.

    Args:
        batch_size: Images in a batch.
        data_shape: Channels, height and width.
        label_width: Labels of an image.
        path_imgrec: The records; their index is needed to shuffle them.
        path_imglist: MXNet's list of images: number, labels and file, with tabs between.
        path_root: The folder that files are relative to.
        path_imgidx: Index of the records.
        shuffle: Whether each epoch has another order.
        part_index: Number of the part to read.
        num_parts: How many parts there are.
        aug_list: Augmenters; those of ``CreateAugmenter`` with ``kwargs`` if None.
        imglist: A list in memory: labels, then the file.
        data_name: Name of the data.
        label_name: Name of the labels.
        dtype: As MXNet has it.
        last_batch_handle: ``pad`` or ``discard``.
        kwargs: Settings of ``CreateAugmenter``.

    Raises:
        UsageError: Neither records nor a list are given, or a setting is not supported.
        ReadError: A file cannot be read.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        names = kwargs.pop("data_name", "data"), kwargs.pop("label_name", "softmax_label")
        self._handle, _ = kwargs.pop("last_batch_handle", "pad"), kwargs.pop("dtype", None)
        if self._handle not in {"pad", "discard"}:
            raise UsageError(f"last_batch_handle is {self._handle!r}, expected 'pad' or 'discard'")
        listed = _listed(path_imglist, kwargs.pop("imglist", None))
        if path_imgrec is None and listed is None:
            raise UsageError("ImageIter reads path_imgrec, path_imglist or imglist; none is given")
        samples: list[tuple[Any, Path | int]]
        self._records: recordio.MXRecordIO | None = None
        if path_imgrec is None:
            folder = Path(path_root or "")
            samples = [(label, folder / file) for label, file in (listed or {}).values()]
        elif path_imgidx is None:
            self._records = recordio.MXRecordIO(path_imgrec, "r")
            samples = [(None, place) for place in _places(self._records)]
        else:
            indexed = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
            self._records = indexed
            keys = indexed.keys if listed is None else listed
            samples = [(listed[key][0] if listed else None, indexed.idx[key]) for key in keys]
        size = len(samples) // num_parts
        self._samples = samples[part_index * size : (part_index + 1) * size] if num_parts > 1 else samples
        self._shape, self._shuffle = tuple(data_shape), shuffle
        self._width = label_width
        self.auglist = list(CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list)
        label_shape = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_data = [DataDesc(names[0], (batch_size, *self._shape))]
        self.provide_label = [DataDesc(names[1], label_shape)]
        self.reset()

    def reset(self) -> None:
        """Begin a further epoch."""
        count = len(self._samples)
        self._order = random.generator().permutation(count) if self._shuffle else np.arange(count)
        self._next = 0

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        count = len(self._samples)
        pad = max(0, self._next + self.batch_size - count)
        if self._next >= count or (pad and self._handle == "discard"):
            raise StopIteration
        places = [self._order[number % count] for number in range(self._next, self._next + self.batch_size)]
        self._next += self.batch_size
        labels, arrays = zip(*(self._read(*self._samples[place]) for place in places), strict=True)
        label = np.stack([np.resize(one, self._width) for one in labels]).astype(np.float32)
        label = label if self._width > 1 else label[:, 0]
        return DataBatch([nd.array(np.stack(arrays))], [nd.array(label)], pad=pad)

    def _read(self, label: Any, place: Path | int) -> tuple[Any, np.ndarray]:
        """Return the labels of an image, and it as it enters a batch: channels, height, width."""
        if isinstance(place, Path):
            x = imread(str(place))
        else:
            assert self._records is not None, "a place in a file of records"
            header, content = recordio.unpack(self._records.read_at(place) or b"")
            label, x = header.label if label is None else label, imdecode(content)
        made = _in_turn(x, self.auglist).asnumpy().transpose(2, 0, 1)
        if made.shape != self._shape:
            raise UsageError(f"an image has the shape {made.shape} in the end, expected {self._shape}")
        return label, made


def _listed(path: str | None, given: Any) -> dict[int, tuple[Any, str]] | None:
    """Return labels and files by number."""
    if path is None:
        rows = [] if given is None else [(one[:-1], one[-1]) for one in given]
        made = {number: (np.ravel(label), file) for number, (label, file) in enumerate(rows, 1)}
        return None if given is None else made
    try:
        lines = [line.split("\t") for line in Path(path).read_text("utf-8").splitlines() if line.strip()]
        return {int(line[0]): (np.array(line[1:-1], np.float32), line[-1].strip()) for line in lines}
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=path) from error
    except ValueError as error:
        raise ReadError(
            "is no list of images: number, labels and file, with tabs between", place=path
        ) from error


def _places(records: recordio.MXRecordIO) -> Iterator[int]:
    """Return where the records of a file begin."""
    place = records.tell()
    while records.read() is not None:
        yield place
        place = records.tell()


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    if name in AUGMENTERS:
        return AUGMENTERS[name]
    raise missing("mx.image", name, [key for key in globals() if not key.startswith("_")])

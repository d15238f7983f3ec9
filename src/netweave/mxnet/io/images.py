"""Iterators of images in MXNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.io.batch import MXDataIter, drop_ignored, require_known, share_of_worker
from netweave.training.data import Source
from netweave.training.data.sources.images import DetectionRecords, RecordIO, join_label
from netweave.training.data.transforms.detection import CropSampler

# Resize the shorter side, warp, pad, crop, jitter the colours, mirror, then arithmetic.

Row = dict[str, Any]

INTERPOLATIONS = ("nearest", "linear", "cubic", "area", "lanczos")
"""By MXNet's number, ``inter_method``; 9 is ``auto`` and 10 ``random``."""


class ImageSettings:
    """Settings that are taken out one by one; what is left over is unknown."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def number(self, name: str, default: float) -> float:
        """Take out a number."""
        value = self._settings.pop(name, None)
        return default if value is None else float(value)

    def numbers(self, name: str, default: float) -> tuple[float, ...]:
        """Take out numbers, or one by itself."""
        value = self._settings.pop(name, None)
        values = value if isinstance(value, list | tuple) else [default if value is None else value]
        return tuple(float(one) for one in values)

    def count(self, name: str, default: int) -> int:
        """Take out a whole number."""
        return int(self.number(name, default))

    def flag(self, name: str) -> bool:
        """Take out a truth value."""
        return str(self._settings.pop(name, False)) in {"True", "1", "true"}

    def text(self, name: str) -> str:
        """Take out a word; empty where there is none."""
        return str(self._settings.pop(name, None) or "")


def image_transforms(shape: Sequence[int], settings: dict[str, Any]) -> list[Mapping[str, Any]]:
    """Return the transforms of some settings, which are taken out of the dictionary.

    Args:
        shape: Sizes of the data: (channels, height, width).
        settings: MXNet's settings.

    Raises:
        UsageError: A number is out of range.
    """
    s = ImageSettings(settings)
    how = interpolation_name(s.count("inter_method", 1))
    rows = [*_sizes(s, how), *_window(s, shape, how), *in_bgr(_colors_image_settings(s))]
    if s.flag("mirror"):
        rows.append({"kind": "mirror", "probability": 1.0})
    elif s.flag("rand_mirror"):
        rows.append({"kind": "mirror"})
    settings.pop("rand_mirror", None)
    return [*rows, *_arithmetic_image_settings(s, shape[0])]


def in_bgr(rows: list[Row]) -> list[Row]:
    """Return transforms of colours in BGR, in which MXNet augments: it is what OpenCV decodes."""
    reverse: Row = {"kind": "reverse_channels"}
    return [reverse, *rows, reverse] if rows else []


def interpolation_name(number: int) -> str:
    """Return the interpolation of a number of MXNet's.

    Raises:
        UsageError: There is none.
    """
    named = dict(enumerate(INTERPOLATIONS)) | {9: "auto", 10: "random"}
    if number not in named:
        raise UsageError(f"inter_method is {number}, expected one of {', '.join(map(str, named))}")
    return named[number]


def _sizes(s: ImageSettings, how: str) -> list[Row]:
    rows: list[Row] = []
    shorter = s.count("resize", -1)
    if shorter > 0:
        rows.append({"kind": "resize", "shorter": shorter, "interpolation": how})
    fill = s.count("fill_value", 255)
    warp: Row = {
        "max_rotate_angle": s.count("max_rotate_angle", 0),
        "rotate": s.count("rotate", -1),
        "max_shear_ratio": s.number("max_shear_ratio", 0.0),
    }
    own_sizes = {"min_size": s.number("min_img_size", 0.0), "max_size": s.number("max_img_size", 1e10)}
    if not s._settings.get("random_resized_crop"):
        ratio = s.number("max_aspect_ratio", 0.0)
        warp |= {
            "min_scale": s.number("min_random_scale", 1.0),
            "max_scale": s.number("max_random_scale", 1.0),
        }
        warp |= {"min_ratio": 1.0 - ratio, "max_ratio": 1.0 + ratio}
        s._settings.pop("min_aspect_ratio", None)
    idle = {
        "max_rotate_angle": 0,
        "rotate": -1,
        "max_shear_ratio": 0.0,
        "min_scale": 1.0,
        "max_scale": 1.0,
        "min_ratio": 1.0,
        "max_ratio": 1.0,
    }
    if any(value != idle[name] for name, value in warp.items()) or own_sizes["max_size"] < 1e10:
        rows.append({"kind": "warp", **warp, **own_sizes, "fill": fill, "interpolation": how})
    pad = s.count("pad", 0)
    if pad:
        rows.append({"kind": "pad", "size": pad, "fill": fill})
    return rows


def _window(s: ImageSettings, shape: Sequence[int], how: str) -> list[Row]:
    _, height, width = shape
    size: Row = {"height": height, "width": width, "interpolation": how}
    where = "random" if s.flag("rand_crop") else "centre"
    if s.flag("random_resized_crop"):
        ratio = s.number("max_aspect_ratio", 0.0)
        low = s.number("min_aspect_ratio", 1.0 - ratio)
        area = {"min_area": s.number("min_random_area", 1.0), "max_area": s.number("max_random_area", 1.0)}
        for name in ("min_random_scale", "max_random_scale"):
            s.number(name, 1.0)
        high = ratio if ratio >= 1.0 else 1.0 + ratio
        return [{"kind": "random_resized_crop", **size, **area, "min_ratio": low, "max_ratio": high}]
    for name in ("min_random_area", "max_random_area"):
        s.number(name, 1.0)
    smallest, largest = s.count("min_crop_size", -1), s.count("max_crop_size", -1)
    if largest > 0:
        sizes = {"min_size": max(smallest, 1), "max_size": largest}
        return [{"kind": "random_size_crop", **size, **sizes, "where": where}]
    return [{"kind": "crop", **size, "where": where, "enlarge": True}]


def _colors_image_settings(s: ImageSettings) -> list[Row]:
    rows: list[Row] = []
    jitter = {name: s.number(name, 0.0) for name in ("brightness", "contrast", "saturation")}
    if any(jitter.values()):
        rows.append({"kind": "color_jitter", **jitter})
    moved = {
        "hue": s.count("random_h", 0),
        "saturation": s.count("random_s", 0),
        "lightness": s.count("random_l", 0),
    }
    if any(moved.values()):
        rows.append({"kind": "hls_jitter", **moved})
    level = s.number("pca_noise", 0.0)
    if level:
        rows.append({"kind": "pca_noise", "level": level})
    return rows


def _arithmetic_image_settings(s: ImageSettings, channels: int) -> list[Row]:
    rows: list[Row] = []
    names = ("r", "g", "b", "a")[:channels]
    path = s.text("mean_img")
    means = [s.number(f"mean_{name}", 0.0) for name in ("r", "g", "b", "a")][: len(names)]
    if path:
        rows.append({"kind": "subtract", "path": path})
    elif any(means):
        rows.append({"kind": "subtract", "values": tuple(means)})
    contrast = {
        "contrast": s.number("max_random_contrast", 0.0),
        "illumination": s.number("max_random_illumination", 0.0),
    }
    if any(contrast.values()):
        rows.append({"kind": "contrast_jitter", **contrast})
    deviations = [s.number(f"std_{name}", 1.0) for name in ("r", "g", "b", "a")][: len(names)]
    factors = tuple(s_scale / one for s_scale in [s.number("scale", 1.0)] for one in deviations)
    if any(factor != 1.0 for factor in factors):
        rows.append({"kind": "scale", "factor": factors})
    return rows


# Resize the shorter side, colours, mirror, border, crop, scale to the size of the data, then arithmetic.

RANGES = {
    "scales": ("crop_scales", 0.0, 1.0),
    "ratios": ("crop_aspect_ratios", 1.0, 1.0),
    "overlaps": ("crop_overlaps", 0.0, 1.0),
    "sample_coverages": ("crop_sample_coverages", 0.0, 1.0),
    "object_coverages": ("crop_object_coverages", 0.0, 1.0),
}
"""Ranges of a crop sampler: MXNet's names without ``min_`` and ``max_``, and its default values."""

MIRROR = "rand_mirror_prob"
AUGMENTER = "det_aug_default"


def detection_transforms(shape: Sequence[int], settings: dict[str, Any]) -> list[Mapping[str, Any]]:
    """Return the transforms of some settings, which are taken out of the dictionary.

    Args:
        shape: Sizes of the data: (channels, height, width).
        settings: MXNet's settings.

    Raises:
        UsageError: A number is out of range, or the mode of resizing leaves a part of the data empty.
    """
    s = ImageSettings(settings)
    _require_plain_form(s)
    how = interpolation_name(s.count("inter_method", 1))
    rows: list[Row] = []
    shorter = s.count("resize", -1)
    if shorter > 0:
        rows.append({"kind": "resize", "shorter": shorter, "interpolation": how})
    rows += in_bgr(_colors_detection_settings(s))
    mirror = s.number(MIRROR, 0.0)
    if mirror > 0.0:
        rows.append({"kind": "mirror", "probability": mirror})
    rows += _border(s)
    rows += _crop(s)
    _, height, width = shape
    rows.append({"kind": "resize", "height": height, "width": width, "interpolation": how})
    return [*rows, *_arithmetic_detection_settings(s, shape[0])]


def _require_plain_form(s: ImageSettings) -> None:
    augmenter, mode = s.text("aug_seq") or AUGMENTER, s.text("resize_mode") or "force"
    if augmenter != AUGMENTER:
        raise UsageError(f"aug_seq is {augmenter!r}, expected {AUGMENTER!r}, MXNet's only one for detectors")
    if mode != "force":
        raise UsageError(
            f"resize_mode is {mode!r}, expected 'force'; with 'fit' and 'shrink' MXNet leaves the rest of "
            "the data as it happens to be in memory"
        )


def _colors_detection_settings(s: ImageSettings) -> list[Row]:
    row: Row = {"kind": "hls_shift", "contrast": s.number("max_random_contrast", 0.0)}
    chances = [row.setdefault("contrast_probability", s.number("random_contrast_prob", 0.0))]
    for ours, theirs in (("hue", "hue"), ("saturation", "saturation"), ("lightness", "illumination")):
        row[ours] = s.count(f"max_random_{theirs}", 0)
        row[f"{ours}_probability"] = s.number(f"random_{theirs}_prob", 0.0)
        chances.append(row[f"{ours}_probability"])
    return [row] if any(chance > 0.0 for chance in chances) else []


def _border(s: ImageSettings) -> list[Row]:
    probability, scale = s.number("rand_pad_prob", 0.0), s.number("max_pad_scale", 1.0)
    row: Row = {"kind": "random_pad", "probability": probability, "max_scale": scale}
    row["fill"] = s.count("fill_value", 127)
    return [row] if probability > 0.0 and scale > 1.0 else []


def _crop(s: ImageSettings) -> list[Row]:
    probability, count = s.number("rand_crop_prob", 0.0), s.count("num_crop_sampler", 1)
    ranges = {
        name: tuple(
            _of_each(s, f"{end}_{theirs}", default, count) for end, default in (("min", low), ("max", high))
        )
        for name, (theirs, low, high) in RANGES.items()
    }
    trials = _of_each(s, "max_crop_trials", 25, count)
    row: Row = {
        "kind": "sampled_crop",
        "probability": probability,
        "keep": s.text("crop_emit_mode") or "center",
    }
    row["keep_overlap"] = s.number("emit_overlap_thresh", 0.3)
    if probability <= 0.0 or count <= 0:
        return []
    try:
        settings: list[dict[str, Any]] = [
            {name: (low[number], high[number]) for name, (low, high) in ranges.items()}
            for number in range(count)
        ]
        row["samplers"] = tuple(
            CropSampler(trials=int(trials[number]), **one) for number, one in enumerate(settings)
        )
    except ValueError as error:
        raise UsageError(f"crop samplers: {error}") from error
    return [row]


def _of_each(s: ImageSettings, name: str, default: float, count: int) -> tuple[float, ...]:
    """Take out a number for each of the samplers; one stands for all."""
    values = s.numbers(name, default)
    if len(values) not in {1, max(count, 1)}:
        raise UsageError(f"{name} has {len(values)} numbers, expected 1 or {count} (num_crop_sampler)")
    return values if len(values) > 1 else values * max(count, 1)


def _arithmetic_detection_settings(s: ImageSettings, channels: int) -> list[Row]:
    rows: list[Row] = []
    names = ("r", "g", "b", "a")
    means, path = [s.number(f"mean_{name}", 0.0) for name in names], s.text("mean_img")
    deviations = [s.number(f"std_{name}", 0.0) for name in names]
    scale = s.number("scale", 1.0)
    if any(mean > 0.0 for mean in means):  # MXNet: one above 0 counts, and then the file does not
        rows.append({"kind": "subtract", "values": tuple(means[:channels])})
    elif path:
        rows.append({"kind": "subtract", "path": path})
    factors = tuple(scale / (one if one > 0.0 else 1.0) for one in deviations[:channels])
    if any(factor != 1.0 for factor in factors):
        rows.append({"kind": "scale", "factor": factors})
    return rows


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

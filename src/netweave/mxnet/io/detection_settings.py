"""The settings of ``ImageDetRecordIter`` as transforms, in MXNet's order (image_det_aug_default.cc).

Resize the shorter side, colours, mirror, border, crop, scale to the size of the data, then arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.mxnet.io.image_settings import ImageSettings, Row, in_bgr, interpolation_name
from netweave.training.data.transforms.detection import CropSampler

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    rows += in_bgr(_colors(s))
    mirror = s.number(MIRROR, 0.0)
    if mirror > 0.0:
        rows.append({"kind": "mirror", "probability": mirror})
    rows += _border(s)
    rows += _crop(s)
    _, height, width = shape
    rows.append({"kind": "resize", "height": height, "width": width, "interpolation": how})
    return [*rows, *_arithmetic(s, shape[0])]


def _require_plain_form(s: ImageSettings) -> None:
    augmenter, mode = s.text("aug_seq") or AUGMENTER, s.text("resize_mode") or "force"
    if augmenter != AUGMENTER:
        raise UsageError(f"aug_seq is {augmenter!r}, expected {AUGMENTER!r}, MXNet's only one for detectors")
    if mode != "force":
        raise UsageError(
            f"resize_mode is {mode!r}, expected 'force'; with 'fit' and 'shrink' MXNet leaves the rest of "
            "the data as it happens to be in memory"
        )


def _colors(s: ImageSettings) -> list[Row]:
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
        row["samplers"] = tuple(
            CropSampler(
                trials=int(trials[number]),
                **{name: (low[number], high[number]) for name, (low, high) in ranges.items()},
            )
            for number in range(count)
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


def _arithmetic(s: ImageSettings, channels: int) -> list[Row]:
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

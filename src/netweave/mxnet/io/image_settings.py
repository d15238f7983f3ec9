"""The settings of ``ImageRecordIter`` as Netweave's transforms, in MXNet's order (image_aug_default.cc).

Resize the shorter side, warp, pad, crop, jitter the colours, mirror, then arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    rows = [*_sizes(s, how), *_window(s, shape, how), *in_bgr(_colors(s))]
    if s.flag("mirror"):
        rows.append({"kind": "mirror", "probability": 1.0})
    elif s.flag("rand_mirror"):
        rows.append({"kind": "mirror"})
    settings.pop("rand_mirror", None)
    return [*rows, *_arithmetic(s, shape[0])]


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


def _colors(s: ImageSettings) -> list[Row]:
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


def _arithmetic(s: ImageSettings, channels: int) -> list[Row]:
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

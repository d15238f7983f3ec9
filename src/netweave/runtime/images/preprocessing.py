"""Preprocessing of images for a net: size, order of channels, mean and scale.

Presets have the names that users of the frameworks know; a text such as
``resize=256,crop=224,order=bgr,mean=104;117;123`` says it all. To add a preset: a row in ``PRESETS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.runtime.images.decode import INTERPOLATIONS, resized

COLORS = ("rgb", "bgr", "gray")

FITS = ("stretch", "crop", "letterbox")

GREY = 127.5
"""What a letterbox fills the rest with: half of the range of pixels, as Darknet does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """Preprocessing of pixels from 0 to 255 for a net: ``(pixel * scale - mean) / std``.

    Frameworks disagree about each of the first five, so none of these has a default value.

    Attributes:
        color: Order of the channels: ``rgb``, ``bgr`` or ``gray``.
        fit: ``stretch`` to the size wanted, whatever the proportions; ``crop`` the middle once the shorter
            side fits; or ``letterbox``: keep all of the image and fill the rest with grey.
        scale: Factor of the pixels, such as 1/255.
        mean: Subtracted after scaling: one number, or one per channel in the order of ``color``.
        std: Divided by then, likewise; each > 0.
        resize: Side, or shorter side, to which an image is brought before the middle is cut out; 0 for that
            of the input.
        crop: Side of the input of a net that takes any size; 0 for the size that the net says.
        interpolation: ``nearest``, ``linear``, ``cubic``, ``area`` or ``lanczos``.
    """

    color: str
    fit: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int = 0
    crop: int = 0
    interpolation: str = "linear"

    def __post_init__(self) -> None:
        for name, known in (("color", COLORS), ("fit", FITS), ("interpolation", INTERPOLATIONS)):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"{name} is {value!r}, expected {', '.join(known[:-1])} or {known[-1]}")
        if not np.isfinite([self.scale, *self.mean, *self.std]).all() or min(self.std, default=0) <= 0:
            raise UsageError(
                f"scale, mean and std are {self.scale}, {self.mean} and {self.std}, expected finite numbers "
                "and each std > 0"
            )
        if not self.scale:
            raise UsageError("scale is 0, which leaves nothing of the image; expected another number")
        channels = 1 if self.color == "gray" else 3
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in {1, channels}:
                raise UsageError(f"{name} has {len(values)} numbers, expected 1 or {channels}")
        if min(self.resize, self.crop) < 0 or (self.resize and self.fit == "letterbox"):
            raise UsageError(
                f"resize and crop are {self.resize} and {self.crop} with fit {self.fit!r}, expected sides "
                ">= 0 and no resize with a letterbox"
            )

    def apply(self, pixels: np.ndarray, height: int, width: int) -> np.ndarray:
        """Return an image as a batch of one, float32 of shape (1, channels, height, width).

        Args:
            pixels: (height, width, channels) in the order of ``color``, from 0 to 255.
            height: Of the input.
            width: Of the input.

        Raises:
            UsageError: The image is cut to more than it was resized to.
        """
        fitted = self._fitted(pixels, height, width).astype(np.float32)
        x = (fitted * np.float32(self.scale) - _row(self.mean)) / _row(self.std)
        return np.ascontiguousarray(x.transpose(2, 0, 1)[None], np.float32)

    def _fitted(self, pixels: np.ndarray, height: int, width: int) -> np.ndarray:
        if self.fit == "letterbox":
            return self._letterbox(pixels, height, width)
        if self.resize and self.resize < max(height, width):
            raise UsageError(
                f"the image is resized to {self.resize}, and {height} x {width} pixels are cut out of it; "
                "expected a resize of no less"
            )
        tall, wide = (self.resize, self.resize) if self.resize else (height, width)
        if self.fit == "crop":
            factor = max(tall / pixels.shape[0], wide / pixels.shape[1])
            tall = max(tall, round(pixels.shape[0] * factor))
            wide = max(wide, round(pixels.shape[1] * factor))
        pixels = self._resized(pixels, tall, wide)
        top, left = (tall - height) // 2, (wide - width) // 2
        return pixels[top : top + height, left : left + width]

    def _letterbox(self, pixels: np.ndarray, height: int, width: int) -> np.ndarray:
        factor = min(height / pixels.shape[0], width / pixels.shape[1])
        tall = max(1, min(height, int(pixels.shape[0] * factor)))
        wide = max(1, min(width, int(pixels.shape[1] * factor)))
        top, left = (height - tall) // 2, (width - wide) // 2
        box = np.full((height, width, pixels.shape[2]), GREY, np.float32)
        box[top : top + tall, left : left + wide] = self._resized(pixels, tall, wide)
        return box

    def _resized(self, pixels: np.ndarray, height: int, width: int) -> np.ndarray:
        return resized(pixels, height, width, self.interpolation, np.random.default_rng(0))


def _row(values: Sequence[float]) -> np.ndarray:
    return np.asarray(values, np.float32)


_IMAGENET: Mapping[str, Any] = {"scale": 1 / 255, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

PRESETS: Mapping[str, Preprocessing] = {
    "caffe": Preprocessing(
        color="bgr", fit="stretch", resize=256, scale=1.0, mean=(104.0, 117.0, 123.0), std=(1.0,)
    ),
    "torchvision": Preprocessing(color="rgb", fit="crop", resize=256, **_IMAGENET),
    "gluon": Preprocessing(color="rgb", fit="crop", resize=256, **_IMAGENET),
    "keras-caffe": Preprocessing(
        color="bgr",
        fit="stretch",
        scale=1.0,
        mean=(103.939, 116.779, 123.68),
        std=(1.0,),
        interpolation="nearest",
    ),
    "keras-tf": Preprocessing(
        color="rgb", fit="stretch", scale=1 / 127.5, mean=(1.0,), std=(1.0,), interpolation="nearest"
    ),
    "keras-torch": Preprocessing(
        color="rgb",
        fit="stretch",
        interpolation="nearest",
        **_IMAGENET,
    ),
    "darknet": Preprocessing(color="rgb", fit="letterbox", scale=1 / 255, mean=(0.0,), std=(1.0,)),
}
"""Preprocessing by the name that users know it by.

Sources: Caffe's ``caffe.Classifier`` and the means of its ImageNet models; ``torchvision.models`` (weights
``IMAGENET1K_V1``); GluonCV's ``transforms.presets.imagenet``; ``keras.applications.imagenet_utils`` with its
three modes and ``load_img``, which takes the nearest pixel; Darknet's ``letterbox_image``.
"""


def parse_preprocessing(text: str) -> Preprocessing:
    """Return the preprocessing that a preset or a text of settings says.

    Settings are separated by commas, the numbers of a list by semicolons; a preset may come first and be
    changed. ``order`` is the order of the channels, ``resize`` the side before the middle of side ``crop`` is
    cut out; without a preset, ``order``, ``mean`` and ``scale`` must be said, the fit is ``crop``, std is 1.

    Raises:
        UsageError: A name or a value is not known, or a setting is missing.

    >>> parse_preprocessing("resize=256,crop=224,order=bgr,mean=104;117;123,scale=1").mean
    (104.0, 117.0, 123.0)
    >>> parse_preprocessing("caffe,order=rgb").color
    'rgb'
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    base = PRESETS.get(words[0]) if words else None
    if not words or (base is None and "=" not in words[0]):
        raise UsageError(
            f"preprocessing {text!r} is not known; expected {', '.join(PRESETS)}, or settings such as "
            "resize=256,crop=224,order=bgr,mean=104;117;123,scale=1"
        )
    changes: dict[str, Any] = {}
    for word in words[1:] if base is not None else words:
        name, _, value = word.partition("=")
        if name not in _SETTINGS or not value:
            raise UsageError(
                f"preprocessing {text!r} has the setting {word!r}, expected {', '.join(_SETTINGS)}, each "
                "as name=value"
            )
        field, parse = _SETTINGS[name]
        try:
            changes[field] = parse(value)
        except ValueError as error:
            raise UsageError(f"preprocessing {text!r}: {name} is {value!r}, expected a number") from error
    if base is not None:
        return replace(base, **changes)
    missing = [name for name in ("order", "mean", "scale") if _SETTINGS[name][0] not in changes]
    if missing:
        raise UsageError(
            f"preprocessing {text!r} does not say {', '.join(missing)}; frameworks disagree about it, so it "
            "has no default"
        )
    return Preprocessing(**{"fit": "crop", "std": (1.0,), **changes})


def _numbers(value: str) -> tuple[float, ...]:
    return tuple(_number(part) for part in value.split(";"))


def _number(value: str) -> float:
    """Return a number, also one written as a fraction: ``1/255``."""
    above, slash, below = value.partition("/")
    if not slash:
        return float(value)
    if not float(below):
        raise ValueError(value)
    return float(above) / float(below)


_SETTINGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "order": ("color", str),
    "fit": ("fit", str),
    "resize": ("resize", int),
    "crop": ("crop", int),
    "interpolation": ("interpolation", str),
    "scale": ("scale", _number),
    "mean": ("mean", _numbers),
    "std": ("std", _numbers),
}

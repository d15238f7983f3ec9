"""An image as the input of a net, prepared as the net was trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.data.decode import decode
from netweave.data.transforms.geometry import resized
from netweave.errors import UsageError
from netweave.files import read_bytes
from netweave.graph import known_shape
from netweave.passes.fitting import likely_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

COLORS = ("rgb", "bgr", "gray")

FITS = ("stretch", "crop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """How pixels from 0 to 255 become the numbers that a net expects: ``(pixel * scale - mean) / std``.

    Frameworks disagree about each of these, so none has a default value.

    Attributes:
        color: Order of the channels: ``rgb``, ``bgr`` or ``gray``.
        fit: ``stretch`` to the size of the input, or ``crop`` the middle once the shorter side fits.
        scale: Factor of the pixels, such as 1/255.
        mean: Subtracted after scaling: one number, or one per channel in the order of ``color``.
        std: Divided by then, likewise; each > 0.
    """

    color: str
    fit: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.color not in COLORS:
            raise UsageError(f"color is {self.color!r}, expected {', '.join(COLORS)}")
        if self.fit not in FITS:
            raise UsageError(f"fit is {self.fit!r}, expected {' or '.join(FITS)}")
        if not np.isfinite([self.scale, *self.mean, *self.std]).all() or min(self.std, default=0) <= 0:
            raise UsageError(
                f"scale, mean and std are {self.scale}, {self.mean} and {self.std}, expected finite numbers "
                "and each std > 0"
            )
        channels = 1 if self.color == "gray" else 3
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in {1, channels}:
                raise UsageError(f"{name} has {len(values)} numbers, expected 1 or {channels}")


def image_input(graph: Graph, file: str | Path, preprocessing: Preprocessing) -> dict[str, np.ndarray]:
    """Return the input of a net that an image makes, by the input's name, as a batch of one.

    Args:
        graph: A net with one input, of shape (batch, channels, height, width).
        file: The image: any file that OpenCV decodes.
        preprocessing: How the net was trained to see images.

    Raises:
        ReadError: The file is no image, or is damaged or too large.
        UsageError: The net has no such input, its size is unknown, or it has other channels.
    """
    value = _image_value(graph)
    height, width = _size(graph, value)
    pixels = decode(read_bytes(Path(file)), preprocessing.color, lambda: str(file))
    _check_channels(value, pixels.shape[2], preprocessing.color)
    fitted = _fitted(pixels, height, width, preprocessing.fit).astype(np.float32)
    x = (fitted * np.float32(preprocessing.scale) - _row(preprocessing.mean)) / _row(preprocessing.std)
    return {str(value.name): np.ascontiguousarray(x.transpose(2, 0, 1)[None], np.float32)}


def _check_channels(value: ir.Value, channels: int, color: str) -> None:
    shape = known_shape(value) or ()
    if isinstance(shape[1], int) and shape[1] != channels:
        raise UsageError(
            f"the input {value.name!r} has {shape[1]} channels, and an image in {color!r} has {channels}; "
            "choose another colour order, or give an .npz"
        )


def _image_value(graph: Graph) -> ir.Value:
    images = [value for value in graph.inputs if value.shape is not None and len(value.shape) == 4]
    if len(images) != 1 or len(list(graph.inputs)) != 1:
        names = ", ".join(f"{value.name} {value.shape}" for value in graph.inputs)
        raise UsageError(
            f"an image is an input of nets with one input (batch, channels, height, width), and "
            f"{graph.name!r} has {names or 'none'}; give an .npz with arrays by name"
        )
    return images[0]


def _size(graph: Graph, value: ir.Value) -> tuple[int, int]:
    declared: Sequence[int | None] = graph.declared.get(str(value.name)) or known_shape(value) or ()
    open_size = likely_size(graph)
    sizes = [size if isinstance(size, int) else open_size for size in declared[2:4]]
    if len(sizes) != 2 or not all(sizes):
        raise UsageError(
            f"the height and width of the input {value.name!r} are not known; set its sizes, such as "
            f"{value.name}=1x3x224x224"
        )
    return int(sizes[0] or 0), int(sizes[1] or 0)


def _fitted(pixels: np.ndarray, height: int, width: int, fit: str) -> np.ndarray:
    if fit == "crop":
        factor = max(height / pixels.shape[0], width / pixels.shape[1])
        tall = max(height, round(pixels.shape[0] * factor))
        wide = max(width, round(pixels.shape[1] * factor))
        pixels = _resized(pixels, tall, wide)
        top, left = (tall - height) // 2, (wide - width) // 2
        return pixels[top : top + height, left : left + width]
    return _resized(pixels, height, width)


def _resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    return resized(pixels, height, width, "linear", np.random.default_rng(0))


def _row(values: Sequence[float]) -> np.ndarray:
    return np.asarray(values, np.float32)

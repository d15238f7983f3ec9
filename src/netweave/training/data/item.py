"""A record as it is passed from a source to a writer: not decoded where it need not be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ShapeError, UsageError
from netweave.runtime.images.decode import decode, opencv

if TYPE_CHECKING:
    from netweave.training.data.transforms.geometry import Resize


@dataclass(frozen=True, slots=True)
class Item:
    """An image, as a file or as pixels, and its labels.

    Attributes:
        name: Of the file it comes from, for keys and messages.
        labels: float32, one axis.
        content: The image as a file; None where there are only pixels.
        pixels: (height, width, channels); None where there is only the file.
        color: Order of three channels: ``bgr`` or ``rgb``.
    """

    name: str = ""
    labels: np.ndarray = field(default_factory=lambda: np.zeros(1, np.float32))
    content: bytes | None = None
    pixels: np.ndarray | None = None
    color: str = "bgr"

    def decoded(self, color: str = "native") -> np.ndarray:
        """Return the pixels; those of a file in the order asked for.

        Raises:
            ReadError: The file is no image.
        """
        if self.pixels is not None:
            return self.pixels
        return decode(self.content or b"", color, lambda: self.name)

    def encoded(self, suffix: str = ".png", quality: int = 95) -> bytes:
        """Return the image as a file: the one it came from, or one made of the pixels.

        Raises:
            UsageError: The pixels cannot be written so.
        """
        if self.content is not None:
            return self.content
        cv2 = opencv()
        pixels = np.ascontiguousarray(self._in_bytes())
        if self.color == "rgb" and pixels.shape[2] == 3:
            pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
        try:
            # OpenCV warns on standard error of each image whose format has no such setting
            settings = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix in {".jpg", ".jpeg"} else []
            done, written = cv2.imencode(suffix, pixels, settings)
        except cv2.error as error:
            raise UsageError(f"{self.name}: cannot be written as {suffix!r}: {error.err}") from error
        if not done:
            raise UsageError(f"{self.name}: cannot be written as {suffix!r}")
        return bytes(written)

    def _in_bytes(self) -> np.ndarray:
        """Return the pixels as image files hold them: 8 bits."""
        pixels = self.decoded()
        with np.errstate(invalid="ignore"):
            whole = pixels.astype(np.uint8)
        if pixels.ndim != 3 or not np.array_equal(whole, pixels):
            raise UsageError(
                f"{self.name or 'a record'}: has pixels of type {pixels.dtype} that are not integers from 0 "
                "to 255, so an image file cannot store them; pack into an LMDB or an .h5"
            )
        return whole

    def resized(self, resize: Resize, generator: np.random.Generator) -> Item:
        """Return the record with pixels of another size.

        Raises:
            ReadError: The file is no image.
            ShapeError: It cannot be scaled.
        """
        try:
            pixels = resize.apply(self.decoded(), generator)
        except ValueError as error:
            raise ShapeError(str(error), place=self.name or "a record") from error
        return replace(self, content=None, pixels=pixels)

    def in_gray(self) -> Item:
        """Return the record with one channel of pixels."""
        pixels = self.decoded("gray")
        if pixels.shape[2] != 1:
            cv2 = opencv()
            code = cv2.COLOR_RGB2GRAY if self.color == "rgb" else cv2.COLOR_BGR2GRAY
            pixels = cv2.cvtColor(np.ascontiguousarray(pixels), code)[:, :, None]
        return replace(self, content=None, pixels=pixels)

    def as_file(self, suffix: str, quality: int) -> Item:
        """Return the record with its image as a file, never as pixels."""
        return replace(self, content=self.encoded(suffix, quality), pixels=None)

    def class_number(self, dtype: type[np.integer[Any]]) -> int:
        """Return the label, for formats whose labels are one integer.

        Args:
            dtype: The type that the format stores it in.

        Raises:
            UsageError: There are several labels, or the label is not such an integer.
        """
        labels, limits = self.labels.ravel(), np.iinfo(dtype)
        record = self.name or "a record"
        if labels.size != 1:
            raise UsageError(
                f"{record}: has {labels.size} labels, and this format stores one; pack into a .rec or an .h5"
            )
        label = float(labels[0])
        if not (label.is_integer() and limits.min <= label <= limits.max):
            raise UsageError(
                f"{record}: has the label {label:g}, and this format stores integers from {limits.min:,} to "
                f"{limits.max:,}; pack into a .rec or an .h5"
            )
        return int(label)

    def planes(self) -> np.ndarray:
        """Return the pixels as (channels, height, width); a row of numbers is so many channels of 1 x 1.

        Raises:
            ReadError: The file is no image.
        """
        pixels = self.decoded()
        if pixels.ndim == 3:
            return np.ascontiguousarray(pixels.transpose(2, 0, 1))
        return pixels.reshape(-1, 1, 1) if pixels.ndim == 1 else pixels.reshape(1, *pixels.shape)

"""Transforms of images between decoding and the batch: their base, and the table.

Two sorts. A *geometric* one (everything on pixels, uint8) makes new pixels of old ones; an *arithmetic* one
works on the floating-point numbers of the batch itself. Geometric ones go first, which changes nothing: an
arithmetic one that knows positions (a mean image) is told which window of the image is left and whether
it is mirrored. To add one: a dataclass of its settings under ``@transform("kind")``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from netweave.deferred import Table
from netweave.errors import ShapeError, UsageError
from netweave.training.settings import from_settings


class Image:
    """An image on its way through the geometric transforms.

    Attributes:
        pixels: (height, width, channels).
        whole: Shape of the image that they are a window of.
        top: First row of the window.
        left: First column of it.
        mirrored: Whether left and right of the window have changed places.
        boxes: Ground-truth boxes in it, as ``Source.boxes`` has them; None where a record has none.
        classes: The class of each pixel, (height, width, 1); None where a record has none.
    """

    __slots__ = ("boxes", "classes", "left", "mirrored", "pixels", "top", "whole")

    def __init__(
        self, pixels: np.ndarray, boxes: np.ndarray | None = None, classes: np.ndarray | None = None
    ) -> None:
        self.replace(pixels)
        self.boxes = boxes
        self.classes = classes

    @property
    def objects(self) -> np.ndarray:
        """The rows of its boxes that hold an object: those with a width."""
        assert self.boxes is not None
        objects: np.ndarray = self.boxes[self.boxes[:, 2] > 0]
        return objects

    @objects.setter
    def objects(self, rows: np.ndarray) -> None:
        """Put other objects, no more than before, in the place of these."""
        assert self.boxes is not None
        self.boxes = np.zeros_like(self.boxes)
        self.boxes[: len(rows)] = rows

    def replace(self, pixels: np.ndarray) -> None:
        """Go on with other pixels, which are no window."""
        self.pixels = pixels
        self.whole = pixels.shape
        self.top = self.left = 0
        self.mirrored = False


class Geometric(ABC):
    """Makes new pixels of old ones."""

    random: ClassVar[bool] = False
    """Whether it draws."""

    keeps_boxes: ClassVar[bool] = False
    """Whether the boxes of an image are right afterwards: moved along, or no pixel was moved."""

    keeps_classes: ClassVar[bool] = False
    """Whether the classes of the pixels are: moved along, or no pixel was moved."""

    @abstractmethod
    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image.

        Raises:
            ValueError: Its size does not allow it.
        """


class Arithmetic(ABC):
    """Works on the numbers of a batch."""

    random: ClassVar[bool] = False
    """Whether it draws."""

    @abstractmethod
    def compute(
        self, values: np.ndarray, out: np.ndarray, image: Image | None, generator: np.random.Generator
    ) -> None:
        """Compute from some numbers those of the batch.

        Args:
            values: (..., height, width, channels) of an image or several; may be ``out``.
            out: Where to, of the same shape, floating point.
            image: Where the values come from; None for several, which are whole.
            generator: Where to draw from.

        Raises:
            ValueError: The size does not allow it.
        """


TRANSFORMS = Table[str, type[Geometric | Arithmetic]](
    f"{__package__}.transforms", ("arithmetic", "detection", "geometry")
)
"""The transforms by kind, as a Job names them."""

T = TypeVar("T", bound="type[Geometric | Arithmetic]")


def transform(kind: str) -> Callable[[T], T]:
    """Enter a transform in the table."""

    def enter(made: T) -> T:
        TRANSFORMS[kind] = made
        return made

    return enter


def make_transform(wanted: Mapping[str, Any]) -> Geometric | Arithmetic:
    """Return a transform that a Job asks for.

    Raises:
        UsageError: There is no such kind, it lacks a setting, does not have one, or one is out of range.
    """
    settings = dict(wanted)
    kind = settings.pop("kind", None)
    if kind not in TRANSFORMS:
        raise UsageError(f"unknown transform {kind!r}; expected one of {', '.join(sorted(TRANSFORMS))}")
    return from_settings(TRANSFORMS[kind], f"transform {kind!r}", settings)


class Pipeline:
    """The transforms of a source, one after another.

    Args:
        wanted: As a Job lists them.

    Attributes:
        random: Whether one of them draws.
        by_record: Whether records must go through one by one.

    Raises:
        UsageError: A transform cannot be made.
    """

    def __init__(self, wanted: Sequence[Mapping[str, Any]] = ()) -> None:
        steps = [make_transform(row) for row in wanted]
        self._geometric = [step for step in steps if isinstance(step, Geometric)]
        self._arithmetic = [step for step in steps if isinstance(step, Arithmetic)]
        self.random = any(step.random for step in steps)
        self.by_record = self.random or bool(self._geometric)

    def shape(
        self, pixels: np.ndarray, generator: np.random.Generator, place: Callable[[], str]
    ) -> tuple[int, ...]:
        """Return the shape that an array has after the transforms.

        Raises:
            ShapeError: Its size does not allow a transform.
        """
        try:
            return self._changed(Image(pixels), generator).pixels.shape
        except ValueError as error:
            raise ShapeError(str(error), place=place()) from error

    def apply(
        self,
        pixels: np.ndarray,
        out: np.ndarray,
        generator: np.random.Generator | None,
        place: Callable[[], str],
        boxes: np.ndarray | None = None,
        classes: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """Put one image, or any other array, through all transforms; return what has moved along with it.

        Args:
            pixels: (height, width, channels), or anything where no transform knows of positions.
            out: Where the numbers of the batch go.
            generator: Where to draw from; None where nothing is ``random``.
            place: Says which record it is, for errors.
            boxes: Ground-truth boxes in the image, if the record has any.
            classes: The class of each pixel, likewise.

        Raises:
            ShapeError: The size of the image does not allow a transform, or is another one in the end.
        """
        try:
            generator = generator or _NOTHING
            image = self._changed(Image(pixels, boxes, classes), generator)
            _check_size(image.pixels, out)
            self._compute(image.pixels, out, image, generator)
        except ValueError as error:
            raise ShapeError(str(error), place=place()) from error
        return image.boxes if classes is None else image.classes

    def apply_many(self, values: np.ndarray, out: np.ndarray, place: Callable[[], str]) -> None:
        """Put several arrays through at once, where that is the same (not ``by_record``).

        Raises:
            ShapeError: Their size does not allow a transform.
        """
        try:
            self._compute(values, out, None, _NOTHING)
        except ValueError as error:
            raise ShapeError(str(error), place=place()) from error

    def _changed(self, image: Image, generator: np.random.Generator) -> Image:
        for step in self._geometric:
            if image.boxes is not None and not step.keeps_boxes:
                raise ValueError(f"has boxes, which the transform {type(step).__name__} would leave behind")
            if image.classes is not None and not step.keeps_classes:
                raise ValueError(
                    f"has a class for each pixel, which {type(step).__name__} would leave behind"
                )
            step.change(image, generator)
        return image

    def _compute(
        self, values: np.ndarray, out: np.ndarray, image: Image | None, generator: np.random.Generator
    ) -> None:
        for step in self._arithmetic:
            step.compute(values, out, image, generator)
            values = out
        if values is not out:
            out[...] = values


_NOTHING = np.random.default_rng(0)


def _check_size(pixels: np.ndarray, out: np.ndarray) -> None:
    if pixels.shape != out.shape:
        size, expected = (" x ".join(map(str, array.shape)) for array in (pixels, out))
        raise ValueError(
            f"is {size} after its transforms, expected {expected} as the first record; crop or resize all"
        )

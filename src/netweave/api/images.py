"""Images as inputs of nets, of one net or of a pair with a preprocessing each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.comparison import Comparison
from netweave.comparison.preprocessing import with_preprocessing
from netweave.errors import UsageError
from netweave.files import read_bytes
from netweave.graph import Graph, known_shape
from netweave.graph.passes.rewriting import likely_size
from netweave.runtime.images.decode import decode
from netweave.runtime.images.preprocessing import Preprocessing, parse_preprocessing


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
    height, width = _size(graph, value, preprocessing.crop)
    pixels = decode(read_bytes(Path(file)), preprocessing.color, lambda: str(file))
    _check_channels(value, pixels.shape[2], preprocessing.color)
    return {str(value.name): preprocessing.apply(pixels, height, width)}


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


def _size(graph: Graph, value: ir.Value, crop: int) -> tuple[int, int]:
    declared: Sequence[int | None] = graph.declared.get(str(value.name)) or known_shape(value) or ()
    if crop and any(isinstance(size, int) and size != crop for size in declared[2:4]):
        raise UsageError(
            f"the input {value.name!r} is {declared[2]} x {declared[3]} pixels, and the preprocessing cuts "
            f"out {crop} x {crop}; set its sizes, such as {value.name}=1x3x{crop}x{crop}, or leave crop out"
        )
    open_size = crop or likely_size(graph)
    sizes = [size if isinstance(size, int) else open_size for size in declared[2:4]]
    if len(sizes) != 2 or not all(sizes):
        raise UsageError(
            f"the height and width of the input {value.name!r} are not known; set its sizes, such as "
            f"{value.name}=1x3x224x224"
        )
    return int(sizes[0] or 0), int(sizes[1] or 0)


@dataclass(frozen=True, slots=True)
class ImagePair:
    """An image, and how each of two nets is given it.

    Attributes:
        file: The image.
        of_a: A's preprocessing.
        of_b: B's.
    """

    file: Path
    of_a: Preprocessing
    of_b: Preprocessing

    @classmethod
    def of(
        cls,
        image: str | Path | None,
        preprocess_a: Preprocessing | str | None,
        preprocess_b: Preprocessing | str | None,
        probe: Any,
    ) -> ImagePair | None:
        """Return what the caller asked for; None without an image.

        Raises:
            UsageError: An image comes without both preprocessings, they come without an image, or there is a
                probe besides.
        """
        given = preprocess_a, preprocess_b
        if image is None and given == (None, None):
            return None
        if image is None:
            raise UsageError(
                "preprocess_a and preprocess_b say what is done to an image; give the image, too"
            )
        if preprocess_a is None or preprocess_b is None:
            missing = "preprocess_a" if preprocess_a is None else "preprocess_b"
            raise UsageError(
                f"an image is given without {missing}; frameworks disagree about the preprocessing, so it "
                "has no default: give a preset such as 'torchvision'"
            )
        if probe is not None:
            raise UsageError("an image and a probe are given; the nets are run on one of them")
        return cls(Path(image), _parsed(preprocess_a), _parsed(preprocess_b))

    def input_of_a(self, a: Graph) -> dict[str, np.ndarray]:
        """Return what A is given.

        Raises:
            ReadError: The file is no image.
            UsageError: The net does not take an image of this kind.
        """
        return image_input(a, self.file, self.of_a)

    def added_to(self, comparison: Comparison, a: Graph, b: Graph, *, tolerance: float) -> Comparison:
        """Return a comparison with what the preprocessing adds to the differences.

        Raises:
            UsageError: B does not take an image of this kind.
        """
        (x,) = self.input_of_a(a).values()
        image_input(b, self.file, self.of_b)  # refuses what does not fit B, in its words

        def pixels(color: str) -> np.ndarray:
            return decode(read_bytes(self.file), color, lambda: str(self.file))

        size = x.shape[2], x.shape[3]
        return with_preprocessing(
            comparison, a, pixels, (self.of_a, self.of_b), size=size, tolerance=tolerance
        )


def _parsed(given: Preprocessing | str) -> Preprocessing:
    return parse_preprocessing(given) if isinstance(given, str) else given

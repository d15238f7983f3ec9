"""One image as two nets are given it, each with its own preprocessing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.images import image_input
from netweave.comparison.preprocessing import with_preprocessing
from netweave.errors import UsageError
from netweave.files import read_bytes
from netweave.runtime.images.decode import decode
from netweave.runtime.images.preprocessing import Preprocessing, parse_preprocessing

if TYPE_CHECKING:
    import numpy as np

    from netweave.comparison import Comparison
    from netweave.graph import Graph


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

"""The sizes of a net's inputs: the errors for those that a file or a caller leaves open, or gives wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import ReadError, ShapeError, UsageError
from netweave.graph.budget import MAX_ELEMENTS, num_elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def unknown_sizes(name: str, *, place: str, example: str = "1x224x224x3") -> ShapeError:
    """Return the error for an input of which a file does not even say how many axes it has."""
    return ShapeError(
        f"the file does not give the sizes of the input {name!r}; set them, as in "
        f"--input-shape {name}={example}",
        place=place,
        open_inputs=(name,),
    )


def open_sizes(
    known: Mapping[str, str],
    *,
    place: str,
    shapes: Mapping[str, tuple[int | None, ...] | None] | None = None,
) -> ReadError:
    """Return the error for inputs of which a file gives some sizes only.

    Args:
        known: By the input's name, the sizes that are known, with letters and dots for others: ``NxCx32x32``.
        place: Where the first of them stands.
        shapes: The same as numbers, as ``SourceError.open_shapes``.
    """
    return ReadError(
        f"the file does not give all sizes of {', '.join(map(repr, known))}, which depend on its data; "
        f"give them: {' '.join(f'--input-shape {name}={sizes}' for name, sizes in known.items())}, with "
        "numbers for letters and dots",
        place=place,
        open_inputs=tuple(known),
        open_shapes=shapes,
    )


def check_given_sizes(name: str, declared: Sequence[object], given: Sequence[int], *, place: str) -> None:
    """Refuse sizes of a caller's for another number of axes than the input has.

    Raises:
        UsageError: The numbers differ.
    """
    if len(declared) != len(given):
        raise UsageError(
            f"{place}: input {name!r} has {len(declared)} axes, but {len(given)} sizes are given: {given}"
        )


def check_input_size(name: str, shape: Sequence[int | None], *, place: str) -> None:
    """Refuse an input with a size below 1, or with too many elements.

    Raises:
        ShapeError: It has.
    """
    sizes = [1 if size is None else size for size in shape]
    if min(sizes, default=1) < 1 or num_elements(sizes) is None:
        raise ShapeError(
            f"input {name!r} would be {'x'.join(map(str, sizes))}; every size must be 1 or more, and all of "
            f"them together at most {MAX_ELEMENTS:,} elements",
            place=place,
        )

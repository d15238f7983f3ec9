"""Reading a net to look at it: sizes that its file does not give are open, and no reason to refuse it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from netweave.api.nets import load, to_inference
from netweave.errors import SourceError
from netweave.graph.passes.open_sizes import LETTERS, with_open_sizes
from netweave.graph.wording import dims_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from netweave.graph import Graph

    Sizes = dict[str, tuple[int, ...]]

GUESSES = {"C": ((3, 6), (60, 120), (1, 2)), "D": ((16, 32),), "H": ((224, 256),), "W": ((224, 256),)}
"""Pairs of sizes that a net is read with where its file does not say one; the first pair that it takes.

Sixty channels can be divided into 2, 3, 4, 5 or 6 groups or slices.
"""

AXES_OF_UNKNOWN = (4, 2)
"""Numbers of axes of an input of which the file says none: images, or rows of numbers."""


def load_for_inspection(net: str | Path, *, inference: bool = False, **options: Any) -> Graph:
    """Read a net to look at it: with letters for the sizes of its inputs that depend on data elsewhere.

    A Caffe net that is trained learns the channels of its images, often also their size, from its database.

    Args:
        net: ``FILE`` or ``FILE,WEIGHTS``, as for ``load``.
        inference: Return it in inference form.
        options: As for ``load``.

    Raises:
        SourceError: The files cannot be read, or the net takes none of the guesses: its weights or its layers
            ask for sizes of their own.
    """
    form = to_inference if inference else _unchanged
    try:
        return form(load(net, **options))
    except SourceError as error:
        if not error.open_shapes:
            raise
        unknown = error
    given = dict(options.pop("input_shapes", None) or {})
    for first, second in _guesses(unknown.open_shapes):
        try:
            readings = [form(load(net, input_shapes=given | sizes, **options)) for sizes in (first, second)]
        except SourceError:
            continue
        graph = with_open_sizes(*readings)
        graph.notes += (_note(unknown.open_shapes, first),)
        return graph
    raise unknown


def _unchanged(graph: Graph) -> Graph:
    return graph


def _guesses(shapes: Mapping[str, tuple[int | None, ...] | None]) -> Iterator[tuple[Sizes, Sizes]]:
    """Yield pairs of sizes for all inputs that differ in every open size."""
    for num_axes in AXES_OF_UNKNOWN if None in shapes.values() else AXES_OF_UNKNOWN[:1]:
        whole = {name: shape or (None,) * num_axes for name, shape in shapes.items()}
        letters = {letter for shape in whole.values() for letter in _letters_of(shape) if letter}
        for chosen in product(*(GUESSES[letter] for letter in sorted(letters))):
            pairs = dict(zip(sorted(letters), chosen, strict=True))
            yield _filled(whole, pairs, 0), _filled(whole, pairs, 1)


def _letters_of(shape: tuple[int | None, ...]) -> list[str]:
    """Return the letter of each open size, empty for known ones and for the batch, which 1 stands for."""
    named = LETTERS.get(len(shape), "N" + "C" * (len(shape) - 1))
    return ["" if size is not None or axis == 0 else named[axis] for axis, size in enumerate(shape)]


def _filled(
    shapes: Mapping[str, tuple[int | None, ...]], pairs: Mapping[str, tuple[int, int]], which: int
) -> Sizes:
    return {
        name: tuple(
            pairs[letter][which] if letter else size or 1
            for size, letter in zip(shape, _letters_of(shape), strict=True)
        )
        for name, shape in shapes.items()
    }


def _note(shapes: Mapping[str, tuple[int | None, ...] | None], sizes: Sizes) -> str:
    names = ", ".join(map(repr, shapes))
    example = " ".join(f"--input-shape {name}={dims_text(sizes[name])}" for name in shapes)
    return (
        f"the file does not give all sizes of {names}, which depend on its data: those and what follows from "
        f"them are shown as letters and question marks; {example}, for one, sets them"
    )

"""The layouts in which frameworks store weights, by letters.

O and I are output and input channels, D, H and W depth, height and width of a filter. Behind a dense layer's
inputs there may be an image that was flattened: C, H and W.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = {
    2: ("OI", "IO"),
    3: ("OIW", "WIO"),
    4: ("OIHW", "HWIO", "OHWI", "IOHW", "OIWH", "WHIO", "OWHI", "IOWH"),
    5: ("OIDHW", "DHWIO"),
}
"""Layouts of weights by their number of axes, the commonest first; those of ports that swap H and W last."""

FILTERS = frozenset((*KNOWN[3], *KNOWN[4], *KNOWN[5]))

DENSE = ("OCHW", "HWCO", "OHWC", "CHWO", "OCWH", "WHCO", "OWHC", "CWHO")
"""Layouts of dense weights whose inputs were an image."""

MAX_SIDE = 16
"""Largest height and width of an image that is looked for behind a dense layer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of an array: a letter and a size for each."""

    letters: str
    sizes: tuple[int, ...]


def axes_between(given: str, made: str) -> tuple[int, ...]:
    """Return the order of axes that turns one layout into another.

    >>> axes_between("OIHW", "HWIO")
    (2, 3, 1, 0)
    """
    return tuple(given.index(letter) for letter in made)


def straightened(letters: str) -> str:
    """Return a layout with height before width.

    >>> straightened("WHIO")
    'HWIO'
    """
    return letters.replace("WH", "HW")


def layouts_of(a: tuple[int, ...], b: tuple[int, ...], *, b_is_net: bool) -> Iterator[tuple[Layout, Layout]]:
    """Yield the pairs of layouts that arrays of these sizes can have, the plainest first.

    Args:
        a: Sizes in A.
        b: Sizes in B.
        b_is_net: B is a net and A is weights alone: of two names for the same, B's is the usual layout.
    """
    if len(a) == len(b):
        pairs = itertools.product(KNOWN.get(len(a), ()), repeat=2)
        names = KNOWN.get(len(a), ())
        ranks = {name: rank for rank, name in enumerate(names)}
        for given, made in sorted(
            pairs, key=lambda p: (p[0] != p[1], ranks[p[0]] + ranks[p[1]], ranks[p[b_is_net]])
        ):
            yield Layout(given, a), Layout(made, b)
    if {len(a), len(b)} <= {2, 4} and 2 in {len(a), len(b)}:
        yield from _flattened(a, b)


def _flattened(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[tuple[Layout, Layout]]:
    """Yield layouts of dense weights with an image behind their inputs, or as filters as large as it."""
    for given, made in itertools.product(DENSE, repeat=2):
        if given == made or (given not in DENSE[:2] and made not in DENSE[:2]):
            continue  # one of the two has a layout that some framework writes by itself
        for sizes in _images(given, a) if len(a) == 2 else _images(made, b):
            first, second = (Layout(name, tuple(sizes[c] for c in name)) for name in (given, made))
            if _fits(first, a) and _fits(second, b):
                yield first, second


def _fits(layout: Layout, shape: tuple[int, ...]) -> bool:
    """Return whether an array of this shape, dense or filters, can be seen in a layout."""
    outputs = layout.sizes[layout.letters.index("O")]
    if len(shape) == 4:
        return layout.sizes == shape
    return outputs == (shape[0] if layout.letters[0] == "O" else shape[1])


def _images(letters: str, shape: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """Yield the sizes by letter that a dense array can have, square images first."""
    outputs, inputs = shape if letters[0] == "O" else shape[::-1]
    sides = [
        (height, width)
        for height in range(2, MAX_SIDE + 1)
        for width in range(2, MAX_SIDE + 1)
        if inputs % (height * width) == 0 and inputs > height * width
    ]
    for height, width in sorted(sides, key=lambda side: side[0] != side[1]):
        yield {"O": outputs, "C": inputs // (height * width), "H": height, "W": width}

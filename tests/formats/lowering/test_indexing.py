"""Parts of a tensor are those that NumPy takes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netweave.formats.lowering.indexing import part_of

SIZES = (3, 4, 5)
BOUNDS = st.none() | st.integers(-6, 6)
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.none() | st.sampled_from([-2, -1, 1, 2]))


@st.composite
def indices(draw):
    axes = [draw(SLICES | st.integers(-size, size - 1)) for size in SIZES[: draw(st.integers(0, 3))]]
    extra = [None] * draw(st.integers(0, 2)) + [...] * draw(st.integers(0, 1))
    for item in extra:
        axes.insert(draw(st.integers(0, len(axes))), item)
    return axes


def _fits(items) -> bool:
    """Whether each number lies in its axis, also where an ellipsis moved it."""
    try:
        np.empty(SIZES)[tuple(items)]
    except IndexError:
        return False
    return True


@given(indices().filter(_fits))
def test_a_part(items):
    x = np.arange(np.prod(SIZES)).reshape(SIZES)
    part = part_of(items, x.ndim)
    y = x
    for axis, (begin, end, step) in part.bounds.items():
        places = range(x.shape[axis])[begin:end:step]
        y = np.take(y, places, axis=axis)
    y = np.expand_dims(np.squeeze(y, tuple(part.removed)), tuple(part.added))
    np.testing.assert_array_equal(y, x[tuple(items)])

"""Which stored elements differ, of arrays that are looked at whole and in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.comparison import metric


@given(
    shape=st.lists(st.integers(0, 5), max_size=3),
    at_once=st.integers(1, 20),
    by_row=st.booleans(),
    seed=st.integers(0, 99),
)
def test_in_parts_or_whole_the_same_elements_differ(shape, at_once, by_row, seed):
    """The definition written out: an element is off by more than a share of the largest."""
    generator = np.random.default_rng(seed)
    a = generator.standard_normal(shape) * 10.0 ** generator.integers(-3, 4, shape)
    b = np.where(generator.random(shape) < 0.5, a, a + generator.standard_normal(shape) * 1e-5)
    b = np.where(generator.random(shape) < 0.1, np.nan, b)
    expected = np.zeros(a.shape, bool)
    for index in np.ndindex(a.shape):
        other_a, other_b = (a[index[0]], b[index[0]]) if by_row and shape else (a, b)
        largest = max(np.abs(other_a).max(), np.abs(other_b).max())
        expected[index] = not abs(a[index] - b[index]) <= metric.WEIGHT_TOLERANCE * largest
        if np.isnan(other_b).any():
            expected[index] = True  # nothing is known to be near what is not a number
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metric, "MAX_AT_ONCE", at_once)
        found = metric.differing(a, b, by_row=by_row and bool(shape))
    np.testing.assert_array_equal(found, expected)

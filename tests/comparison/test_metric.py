"""What is measured of tensors, whole and in parts: differences, errors, sketches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.comparison import metric
from netweave.comparison.align import sketches


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


@given(
    shape=st.lists(st.integers(1, 5), max_size=3),
    block=st.integers(1, 20),
    odd=st.sampled_from([0.0, 0.0, np.nan, np.inf]),
    seed=st.integers(0, 99),
)
def test_in_blocks_or_whole_the_error_is_that_of_the_formula(shape, block, odd, seed):
    generator = np.random.default_rng(seed)
    a = (generator.standard_normal(shape) * 10.0 ** generator.integers(-9, 9)).astype(np.float32)
    b = np.asarray(a * (1 + generator.standard_normal(shape) * 1e-3), np.float32)
    if odd:
        b = np.where(generator.random(shape) < 0.2, np.float32(odd), b)
    rows_a, rows_b = (x.reshape(x.shape[0] if x.ndim else 1, -1).astype(np.float64) for x in (a, b))
    expected = np.inf
    if np.isfinite(rows_b).all():
        expected = max(
            np.abs(x - y).max() / np.sqrt(np.mean(x * x)) for x, y in zip(rows_a, rows_b, strict=True)
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metric, "BLOCK", block)
        assert metric.relative_error(a, b) == pytest.approx(expected, rel=1e-4)


@given(size=st.integers(2, 50), block=st.integers(1, 20), seed=st.integers(0, 99))
def test_a_sketch_is_of_the_whole_tensor_and_not_of_its_layout(size, block, seed):
    x = np.random.default_rng(seed).standard_normal((size, 3)).astype(np.float32)
    rms = np.sqrt(np.mean(np.square(x, dtype=np.float64)))
    expected = [
        rms,
        x.mean() / rms,
        np.abs(x).mean() / rms,
        np.mean(x**3) / rms**3,
        x.max() / rms,
        x.min() / rms,
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketches, "BLOCK", block)
        for layout in (x, x.T, x[::-1]):
            np.testing.assert_allclose(sketches.sketch(layout), expected, rtol=1e-4, atol=1e-5)
        for useless in (np.full_like(x, 3), np.zeros_like(x), np.where(x == x.max(), np.nan, x), x[:0]):
            assert sketches.sketch(useless) is None


@pytest.mark.parametrize("fill", [-1e4, -1e9, float(np.finfo(np.float32).min)])
def test_what_a_mask_adds_hides_no_difference_of_scores(fill):
    scores = np.random.default_rng(0).standard_normal((2, 6, 6)).astype(np.float32)
    mask = np.where(np.tri(6, dtype=bool), 0, np.float32(fill))
    assert metric.relative_error(scores + mask, scores.transpose(0, 2, 1) + mask) > 0.5
    assert metric.relative_error(scores + mask, scores + mask) == 0

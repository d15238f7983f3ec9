"""One type for a change of layout: what ``apply`` does is what its fields and its words say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.layout.filters import match_filters
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.layout.tensors import match_stored, solve_layout
from netweave.comparison.layout.wording import describe
from netweave.comparison.result.comparison import TensorMapping

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("change", "expected", "text"),
    [
        (LayoutChange(), X, ""),
        (LayoutChange(axes=(0, 2, 3, 1)), X.transpose(0, 2, 3, 1), "channels last (NHWC)"),
        (LayoutChange(orders=((1, (2, 1, 0)),)), X[:, ::-1], "channels reversed (RGB and BGR)"),
        (LayoutChange(orders=((3, (4, 3, 2, 1, 0)),)), X[..., ::-1], "flipped left to right"),
        (
            LayoutChange(axes=(0, 2, 3, 1), orders=((3, (2, 1, 0)),), scale=0.5),
            X.transpose(0, 2, 3, 1)[..., ::-1] * np.float32(0.5),
            "channels last (NHWC), channels reversed (RGB and BGR), values times 0.5",
        ),
        (LayoutChange(shape=(-1, 60)), X.reshape(2, 60), ""),
        (
            LayoutChange(axes=(2, 3, 1, 0), letters="OIHW"),
            X.transpose(2, 3, 1, 0),
            "HWIO for OIHW",
        ),
        (
            LayoutChange(orders=((2, (3, 2, 1, 0)), (3, (4, 3, 2, 1, 0))), letters="OIHW"),
            X[:, :, ::-1, ::-1],
            "filters rotated by 180 degrees",
        ),
    ],
)
def test_a_change_does_what_it_says(change, expected, text):
    np.testing.assert_array_equal(change.apply(X), expected)
    assert describe(change) == text


def test_the_batch_stays_open_also_where_another_size_is_zero():
    change = LayoutChange(shape=(-1, 0))
    assert change.apply(np.zeros((7, 0, 2))).shape == (7, 0)


AXES = st.permutations(range(1, 4)).map(lambda rest: (0, *rest))


@given(axes=AXES, order=st.permutations(range(3)))
def test_a_tensor_that_is_permuted_and_reordered_is_matched(axes, order):
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5))
    solved = solve_layout(x, x[:, list(order)].transpose(axes), tolerance=1e-6)
    assert solved is not None
    np.testing.assert_array_equal(solved[0].apply(x), x[:, list(order)].transpose(axes))


@given(
    name=st.sampled_from(sorted(ORIENTATIONS)),
    inputs=st.permutations(range(4)),
    outputs=st.permutations(range(6)),
)
def test_filters_that_are_reoriented_and_reordered_are_matched(name, inputs, outputs):
    filters = np.random.default_rng(2).standard_normal((6, 4, 3, 3))
    made = ORIENTATIONS[name](filters[list(outputs)][:, list(inputs)])
    match = match_filters(filters, made)
    assert match is not None
    assert match.is_equal
    np.testing.assert_array_equal(match.change.apply(filters), made)
    assert match.change.orientation == name


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (2, 3, 1, 0), (0, 2, 3, 1), (0, 1, 3, 2)])
def test_filters_and_stored_arrays_have_one_tolerance(axes):
    """A weight that differs by more than rounding is a difference to both, by less to neither."""
    filters = np.random.default_rng(3).uniform(0.5, 1.0, (8, 4, 3, 5))
    for step, is_equal in ((0.5e-5, True), (2e-5, False)):
        changed = filters.copy()
        changed[2, 1, 0, 3] += step * np.abs(filters).max()
        stored = match_stored(filters, changed.transpose(axes))
        assert stored is not None
        assert stored.is_equal == is_equal
        match = match_filters(filters, changed)
        assert match is not None
        assert match.is_equal == is_equal


def test_a_mapping_is_a_change_between_two_names():
    change = LayoutChange(axes=(0, 2, 3, 1), orders=((3, (2, 1, 0)),), scale=2.0)
    mapping = TensorMapping.named("data", "image", change, describe(change))
    assert (mapping.a, mapping.b, mapping.text) == ("data", "image", describe(change))
    np.testing.assert_array_equal(mapping.apply(X), change.apply(X))
    assert mapping.channel_order == (2, 1, 0)
    assert not mapping.is_identity

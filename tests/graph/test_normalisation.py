"""Caffe's LRN within each channel: against its formula place by place, and what its shape rule refuses."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph import find_operator


def test_channel_lrn_follows_the_source_place_by_place():
    """lrn_layer.cpp: the average divides by the whole window, also where it hangs over the edge."""
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
    size, alpha, beta = 3, 0.7, 0.75
    expected = np.empty_like(x)
    for n, c, i, j in np.ndindex(x.shape):
        window = x[n, c, max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
        expected[n, c, i, j] = x[n, c, i, j] / (1 + alpha * (window**2).sum() / size**2) ** beta
    attributes = {"size": size, "alpha": alpha, "beta": beta}
    (found,) = find_operator("ChannelLRN").forward([x], attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "size", "message"),
    [
        ((2, 3, 5), 3, "an input with 3 axes, expected 4"),
        ((2, 3, 5, 4), 4, "a window of 4, expected an odd number"),
        ((2, 3, 5, 4), -1, "a window of -1, expected an odd number"),
    ],
)
def test_channel_lrn_refuses(shape, size, message):
    with pytest.raises(ValueError, match=message):
        find_operator("ChannelLRN").shapes([shape], {"size": size})

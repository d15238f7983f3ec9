"""Normalisation: groups, and a batch normalised again to the bits of torch's own training kernel."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch.normalisation import (  # noqa: E402
    group_normalization,
    kept_statistics,
    normalised_again,
)

SHAPES = [(6, 11), (4, 13, 5), (3, 5, 7, 9), (1, 33, 8, 8), (2, 4, 3, 5, 6)]


def drawn(shape, seed):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def normalised(x, scale, shift, epsilon):
    return torch.native_batch_norm(x, scale, shift, None, None, True, 0.0, epsilon)[0]


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bits_are_those_of_the_first_time(shape, last, dtype, epsilon):
    x = (3 * drawn(shape, 0) + 0.5).to(dtype)
    if last and x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    own = torch.float32 if dtype is torch.bfloat16 else dtype  # autocast leaves parameters as they are
    scale, shift = (drawn(shape[1], seed).to(own).requires_grad_() for seed in (1, 2))
    y = normalised(x, scale, shift, epsilon)
    statistics = kept_statistics(y)
    assert statistics is not None
    assert torch.equal(normalised_again(x, scale, shift, statistics), y)


@pytest.mark.parametrize("last", [True, False])
def test_what_runs_behind_it_by_parts_gives_the_same_bits(last, monkeypatch):
    x, other = drawn((7, 24, 9, 9), 0).float(), drawn((7, 24, 9, 9), 3).float()
    if last:
        x, other = (one.contiguous(memory_format=torch.channels_last) for one in (x, other))
    scale, shift = (drawn(24, seed).float().requires_grad_() for seed in (1, 2))
    y = normalised(x, scale, shift, 1e-5)
    parts = []

    def behind(part, where):
        parts.append(where)
        part.add_(other[where]).relu_()

    monkeypatch.setattr("netweave.runtime.backends.torch.normalisation.PART", 2 * x[0].nbytes)
    again = normalised_again(x, scale, shift, kept_statistics(y), behind)
    assert torch.equal(again, (y + other).relu())
    assert again.stride() == y.stride()
    assert [(part.start, part.stop) for part in parts] == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_statistics_of_another_kernel_or_rounded_ones_are_not_taken():
    x, scale, shift = drawn((3, 5, 4, 4), 0), drawn(5, 1).requires_grad_(), drawn(5, 2)
    assert kept_statistics(x * scale.reshape(-1, 1, 1)) is None
    assert kept_statistics(x) is None
    rounded = normalised(x.bfloat16(), scale.bfloat16(), shift.bfloat16(), 1e-5)
    assert kept_statistics(rounded) is None


@pytest.mark.parametrize("num_groups", [4, 8])
def test_groups_far_from_zero_are_normalised_wherever_the_channels_lie(num_groups):
    """torch takes mean and variance of an image with its channels last from sums of x and of its square."""
    x = drawn((2, 8, 9, 11), 0) + 1000.0
    scale, bias = drawn(8, 1), drawn(8, 2)
    groups = x.numpy().reshape(2, num_groups, -1)
    y = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    expected = y.reshape(x.shape) * scale.numpy()[:, None, None] + bias.numpy()[:, None, None]
    for memory_format in (torch.contiguous_format, torch.channels_last):
        given = x.float().contiguous(memory_format=memory_format)
        found = group_normalization(given, scale.float(), bias.float(), num_groups=num_groups)
        np.testing.assert_allclose(found, expected, atol=1e-3)

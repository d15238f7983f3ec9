"""Draws: Philox as it is published, its parts as pieces of the whole, and the distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch.random import (  # noqa: E402 - after the check for torch
    Draws,
    normal_words,
    stream_of,
    uniform_words,
)

MASK = 2**64 - 1


def philox(counter, key):
    """Return the four words of one block, by the paper's ten rounds (Salmon et al. 2011, table 2)."""
    counter, key = list(counter), list(key)
    for number in range(10):
        if number:
            key = [(key[0] + 0x9E3779B97F4A7C15) & MASK, (key[1] + 0xBB67AE8584CAA73B) & MASK]
        first, second = counter[0] * 0xD2E7470EE14C6C93, counter[2] * 0xCA5A826395121157
        counter = [
            (second >> 64) ^ counter[1] ^ key[0],
            second & MASK,
            (first >> 64) ^ counter[3] ^ key[1],
            first & MASK,
        ]
    return counter


def test_the_bits_are_those_of_philox():
    seed, stream, step = 5, stream_of("drop"), 7
    found = uniform_words(seed, stream, step, start=0, count=20)
    words = []
    for block in range(1, 4):  # NumPy counts up before it draws
        for word in philox([block, 0, step, 0], [seed, stream]):
            words += [word & 0xFFFFFFFF, word >> 32]
    np.testing.assert_array_equal(found, [np.float32((word >> 8) / 2**24) for word in words[:20]])


@pytest.mark.parametrize("draw", [uniform_words, normal_words])
@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 1000])
def test_a_part_is_a_piece_of_the_whole(draw, start):
    whole = draw(3, 4, 5, start=0, count=start + 33)
    np.testing.assert_array_equal(draw(3, 4, 5, start=start, count=33), whole[start:])


def test_seed_step_and_node_each_change_everything():
    first = uniform_words(1, 2, 3, start=0, count=1000)
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert np.mean(uniform_words(*other, start=0, count=1000) == first) < 0.01
    assert stream_of("a") != stream_of("b")


def test_the_distributions():
    uniform = uniform_words(1, 2, 3, start=0, count=100_000)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert uniform.min() >= 0
    assert uniform.max() < 1
    normal = normal_words(1, 2, 3, start=0, count=100_000)
    assert stats.kstest(normal, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((12, 3), 0), ((12, 3, 5, 5), 0), ((7, 12, 3), 1), ((24, 3), 0), ((5, 3), None)],
    ids=["rows", "images", "sequences", "several rows for a sample", "no sample"],
)
def test_a_batch_in_parts_draws_as_the_whole(shape, axis):
    draws = Draws()
    draws.at(seed=1, step=2, first=0, samples=12)
    whole = draws.uniform(9, shape)
    parts = []
    for first in range(0, 12, 4):
        draws.at(seed=1, step=2, first=first, samples=4)
        sizes = list(shape)
        if axis is not None:
            sizes[axis] //= 3
        parts.append(draws.uniform(9, sizes))
    if axis is None:
        assert all(torch.equal(part, whole) for part in parts)
    else:
        assert torch.equal(torch.cat(parts, axis), whole)


def test_torch_seeds_what_nobody_pins():
    def drawn():
        draws = Draws()
        found = []
        for _ in range(2):
            draws.begin()
            found.append(draws.uniform(1, (8,)))
        return found

    torch.manual_seed(3)
    first = drawn()
    torch.manual_seed(3)
    second = drawn()
    assert not torch.equal(first[0], first[1])
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))

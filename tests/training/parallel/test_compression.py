"""2-bit codes: MXNet's rule, element by element, and the residual's algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from netweave.training.parallel.exchange import num_code_bytes, quantize_2bit, sum_2bit


def mxnet_codes(gradient, residual, threshold):
    """``quantize_2bit`` of ``gradient_compression-inl.h`` at 1.9.1, transcribed: a loop over elements."""
    residual = residual + gradient
    codes = bytearray(-(-len(residual) // 16) * 4)
    for index, value in enumerate(residual):
        if value >= threshold:
            bits, residual[index] = 0b11, value - threshold
        elif value <= -threshold:
            bits, residual[index] = 0b10, value + threshold
        else:
            bits = 0
        codes[index // 4] |= bits << (6 - 2 * (index % 4))
    return codes, residual


@given(st.integers(1, 70), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.25, 1.0]))
def test_codes_and_residuals_are_mxnets(count, seed, threshold):
    draw = np.random.default_rng(seed)
    gradient, residual = draw.normal(size=(2, count)).astype(np.float32)
    expected, left = mxnet_codes(gradient, residual, np.float32(threshold))
    kept = torch.from_numpy(residual.copy())
    codes = quantize_2bit(torch.from_numpy(gradient), kept, threshold)
    assert bytes(codes.numpy()) == bytes(expected)
    assert len(codes) == num_code_bytes(count)
    np.testing.assert_array_equal(kept.numpy(), left)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_what_is_not_sent_is_sent_later(count, seed, steps):
    """Gradients are multiples of 1/64, so that sums are exact: sent and residual together are all of them."""
    draw = np.random.default_rng(seed)
    residual, sent = torch.zeros(count), torch.zeros(count)
    total = torch.zeros(count)
    for _ in range(steps):
        gradient = torch.from_numpy(draw.integers(-64, 65, size=count).astype(np.float32) / 64)
        total += gradient
        sent += sum_2bit([quantize_2bit(gradient, residual, 0.5)], count, 0.5, torch.float32)
    assert torch.equal(sent + residual, total)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_a_sum_of_codes_is_that_of_what_they_stand_for(num_ranks, count, seed):
    gradients = torch.from_numpy(np.random.default_rng(seed).normal(size=(num_ranks, count)))
    rows = [quantize_2bit(gradient, torch.zeros(count).double(), 0.3) for gradient in gradients]
    expected = 0.3 * ((gradients >= 0.3).double() - (gradients <= -0.3).double()).sum(0)
    assert torch.equal(sum_2bit(rows, count, 0.3, torch.float64), expected)


@pytest.mark.parametrize("value", [0.5, -0.5, 0.49, -0.49, 3.0])
def test_an_element_at_the_threshold_is_sent(value):
    residual = torch.zeros(1)
    sent = sum_2bit([quantize_2bit(torch.tensor([value]), residual, 0.5)], 1, 0.5, torch.float32)
    assert sent.item() == (0.5 if value >= 0.5 else -0.5 if value <= -0.5 else 0.0)

"""Max pooling that keeps no image against torch's own: values, gradients, and what is kept."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402 - after the check for torch

from netweave.runtime.backends.torch.pooling import max_pool_2d  # noqa: E402

WINDOWS = [
    ([2, 2], [2, 2], [0, 0], [1, 1], False),
    ([3, 3], [2, 2], [1, 1], [1, 1], True),
    ([3, 2], [1, 3], [1, 0], [2, 1], False),
]


def drawn(memory_format=torch.contiguous_format, dtype=torch.float64):
    made = torch.randn(2, 3, 9, 8, dtype=dtype, generator=torch.Generator().manual_seed(0))
    return made.contiguous(memory_format=memory_format).requires_grad_()


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_values_and_gradients_are_torchs(windows, memory_format, dtype):
    results = []
    for function in (max_pool_2d, functional.max_pool2d):
        x = drawn(memory_format, dtype)
        y = function(x, *windows)
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(dtype))
        results.append((y.detach(), x.grad))
    for own, expected in zip(*results, strict=True):
        assert torch.equal(own, expected)
        assert own.stride() == expected.stride()


@pytest.mark.parametrize("windows", WINDOWS)
def test_gradients_of_both_orders(windows):
    """By finite differences."""
    x = drawn()
    assert torch.autograd.gradcheck(lambda x: max_pool_2d(x, *windows), x)
    assert torch.autograd.gradgradcheck(lambda x: max_pool_2d(x, *windows).square(), x)


def test_the_image_is_not_kept():
    kept = []

    def note(tensor):
        kept.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = max_pool_2d(drawn(), *WINDOWS[0])
    assert kept == [y.shape]

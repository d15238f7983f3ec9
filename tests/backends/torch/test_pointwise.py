"""Convolutions with a window of one against torch's own, values and gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402 - after the check for torch

from netweave.backends.torch.convolution import conv  # noqa: E402
from netweave.backends.torch.pointwise import is_pointwise, pointwise  # noqa: E402

STRIDES = [(1, 1), (2, 2), (3, 1), (1, 2)]


def drawn(*shape, seed=0, dtype=torch.float64):
    made = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    made = made.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else made
    return made.requires_grad_()


def leaves(shape=(2, 3, 5, 4), *, bias=True, dtype=torch.float64):
    given = [drawn(*shape, dtype=dtype), drawn(6, shape[1], 1, 1, seed=1, dtype=dtype)]
    return [*given, drawn(6, seed=2, dtype=dtype) if bias else None]


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_both_orders(strides, bias):
    """By finite differences."""
    x, w, b = leaves(bias=bias)
    given = (x, w, b) if bias else (x, w)
    assert torch.autograd.gradcheck(lambda x, w, b=None: pointwise(x, w, b, strides), given)
    assert torch.autograd.gradgradcheck(lambda x, w, b=None: pointwise(x, w, b, strides).square(), given)


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 3, 1, 1), (2, 1, 7, 7), (1, 8, 3, 3), (0, 3, 5, 4)])
def test_values_and_gradients_are_torchs(shape, strides, bias):
    found = []
    for function in (conv, None):
        x, w, b = leaves(shape, bias=bias)
        assert is_pointwise(x, w, [0, 0], 1)
        y = functional.conv2d(x, w, b, strides) if function is None else conv(x, w, b, strides=strides)
        y = torch.relu_(y)  # as the net has it: written over what the convolution gave
        y.backward(drawn(*y.shape, seed=3).detach().contiguous())
        assert function is None or y.is_contiguous(memory_format=torch.channels_last)
        found.append([y.detach(), x.grad, w.grad, *([] if b is None else [b.grad])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_what_needs_no_gradient_has_none():
    for frozen in range(3):
        given = leaves()
        given[frozen] = given[frozen].detach()
        pointwise(*given, (1, 1)).sum().backward()
        assert [leaf.grad is None for leaf in given] == [number == frozen for number in range(3)]


def test_what_is_no_product_of_matrices_is_left_to_torch():
    x, w, _ = leaves()
    assert is_pointwise(x, w, [0, 0], 1)
    assert not is_pointwise(x, w, [1, 0], 1)
    assert not is_pointwise(x, drawn(6, 1, 1, 1), [0, 0], 3)
    assert not is_pointwise(x, drawn(6, 3, 1, 2), [0, 0], 1)
    assert not is_pointwise(drawn(2, 3, 5), drawn(6, 3, 1), [0], 1)
    assert not is_pointwise(x.detach().contiguous(), w, [0, 0], 1)
    assert not is_pointwise(x, w.float(), [0, 0], 1)


def test_one_image_in_the_other_order_of_memory_gives_the_same():
    x, w, b = leaves((1, 3, 4, 4))
    torch.testing.assert_close(conv(x.detach().contiguous(), w, b), conv(x, w, b), rtol=1e-12, atol=1e-12)

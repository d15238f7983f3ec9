"""LRN's own kernel: its gradient by finite differences, and independence of how it is cut."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402 - after the check for torch

from netweave.runtime.backends.torch import normalisation  # noqa: E402

lrn = normalisation.local_response_normalization


def images(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("beta", [0.75, 0.5])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 15])
def test_gradient(size, beta):
    """By finite differences; windows of even sizes are lopsided, one is wider than there are channels."""
    x = images(2, 7, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: lrn(x, alpha=0.3, beta=beta, bias=1.5, size=size), x)


@pytest.mark.parametrize("shape", [(2, 9, 4, 3), (2, 9), (3, 9, 5), (1, 9, 2, 3, 2)])
def test_values_are_pytorchs(shape):
    x = images(*shape)
    found = lrn(x, alpha=0.3, beta=0.75, bias=1.5, size=5)
    assert found.shape == x.shape
    if len(shape) == 2:  # which PyTorch refuses
        x, found = x[..., None], found[..., None]
    torch.testing.assert_close(found, functional.local_response_norm(x, 5, alpha=0.3, k=1.5))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_cutting_changes_nothing(monkeypatch, memory_format):
    x = images(3, 8, 5, 5, dtype=torch.float32).contiguous(memory_format=memory_format)
    above = images(3, 8, 5, 5, dtype=torch.float32) + 1

    def run():
        leaf = x.detach().clone().requires_grad_()
        y = lrn(leaf, alpha=0.1, size=5)
        y.backward(above)
        return y.detach(), leaf.grad

    whole = run()
    monkeypatch.setattr(normalisation, "CHUNK_ELEMENTS", 24)
    assert all(map(torch.equal, run(), whole))


def test_what_overflows_spoils_its_neighbours_only():
    x = images(1, 9, 1, 1, dtype=torch.float32)
    x[0, 0] = 1e30
    assert torch.isfinite(lrn(x, size=5)[0, 3:]).all()


def test_bfloat16_is_computed_in_float32():
    x = images(2, 8, 3, 3, dtype=torch.float32).bfloat16()
    exact = lrn(x.float(), alpha=0.3, size=5)
    assert torch.equal(lrn(x, alpha=0.3, size=5), exact.bfloat16())

"""Programs with complex numbers against the same in real ones, and rotary embeddings in both spellings."""

from __future__ import annotations

import numpy as np
import pytest

import netweave

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

from netweave.formats.pytorch.complex_numbers import write_as_pairs  # noqa: E402 - needs torch

SIZE = 8


def as_halves(x, phases):
    """Rotate feature i with feature i + size / 2."""
    pairs = torch.complex(x[..., : SIZE // 2], x[..., SIZE // 2 :]) * phases[:, None]
    return torch.cat([pairs.real, pairs.imag], -1)


def as_neighbours(x, phases):
    """Rotate as Meta's Llama does."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * phases.view(1, -1, 1, SIZE // 2)).flatten(3)


def backwards(x, phases):
    """Rotate by the opposite angles, and scale by sizes."""
    pairs = torch.complex(x[..., : SIZE // 2], x[..., SIZE // 2 :]).transpose(1, 2)
    turned = (pairs * phases.conj()).transpose(1, 2)
    return torch.cat([turned.real * turned.abs(), (turned - pairs.transpose(1, 2) + 2j).imag], -1)


class Rotated(torch.nn.Module):
    def __init__(self, rotate, *, stored):
        super().__init__()
        self.linear = torch.nn.Linear(16, 2 * SIZE)
        self.rotate, self.stored = rotate, stored
        inverse = 10000.0 ** -(torch.arange(0, SIZE, 2).float() / SIZE)
        if stored:
            angles = torch.outer(torch.arange(32).float(), inverse)
            self.register_buffer("phases", torch.polar(torch.ones_like(angles), angles))
        else:
            self.register_buffer("inverse", inverse)

    def forward(self, x):
        steps = x.shape[1]
        if self.stored:
            phases = self.phases[:steps]
        else:
            phases = torch.exp(1j * torch.outer(torch.arange(steps).float(), self.inverse))
        return self.rotate(self.linear(x).view(x.shape[0], steps, 2, SIZE), phases)


class InRealNumbers(Rotated):
    """The first of the nets above as most people write it."""

    def forward(self, x):
        steps = x.shape[1]
        angles = torch.outer(torch.arange(steps).float(), self.inverse)[:, None]
        x = self.linear(x).view(x.shape[0], steps, 2, SIZE)
        a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("rotate", [as_halves, as_neighbours, backwards])
def test_pairs_compute_what_complex_numbers_do(rotate, stored):
    torch.manual_seed(0)
    module, x = Rotated(rotate, stored=stored).eval(), torch.randn(3, 7, 16)
    auto = torch.export.Dim.AUTO
    program = torch.export.export(module, (x,), dynamic_shapes={"x": {0: auto, 1: auto}})
    assert write_as_pairs(program)
    made = [node.meta["val"] for node in program.graph.nodes if node.op == "call_function"]
    names = {str(node.target) for node in program.graph.nodes}
    assert all(not value.is_complex() for value in made if isinstance(value, torch.Tensor))
    assert "aten.mul.Tensor" in names
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), module(x))
        shorter = torch.randn(2, 5, 16)
        torch.testing.assert_close(program.module()(shorter), module(shorter))


def test_a_program_without_complex_numbers_or_with_an_operator_that_has_no_rule_is_left():
    class Determinant(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.det(torch.complex(x, x)).abs()

    class Mixed(torch.nn.Module):
        def forward(self, x):
            return torch.cat([torch.complex(x, x), x.to(torch.complex64)]).abs()

    class Joined(torch.nn.Module):
        def forward(self, x):
            return torch.cat([torch.complex(x, x), x]).abs()

    class Weighted(torch.nn.Module):
        def forward(self, x):
            return torch.add(torch.complex(x, x), torch.complex(x, -x), alpha=2).abs()

    class Changed(torch.nn.Module):
        def forward(self, x):
            z = torch.complex(x, x)
            torch.view_as_real(z).mul_(2)
            return z.abs()

    class ChangedBefore(torch.nn.Module):
        def forward(self, x):
            own = x * 1
            z = torch.complex(own, own)
            own.view(-1).mul_(2)
            return z.abs()

    x = torch.randn(3, 2, 2)
    refused = (Determinant(), Mixed(), Joined(), Weighted(), Changed(), ChangedBefore())
    for module in (torch.nn.Linear(2, 3), *refused):
        program = torch.export.export(module, (x,))
        before = str(program.graph)
        assert not write_as_pairs(program)
        assert str(program.graph) == before


def test_a_rotary_embedding_that_pytorchs_exporter_refuses_is_read_and_equal_to_the_usual_one():
    torch.manual_seed(0)
    plain = InRealNumbers(None, stored=False).eval()
    module = Rotated(as_halves, stored=False).eval()
    module.load_state_dict(plain.state_dict())
    x = torch.randn(3, 7, 16)
    a, b = (netweave.load(each, examples=[x]) for each in (plain, module))
    (made,) = netweave.run(b, {"x": x.numpy()}).values()
    with torch.no_grad():
        np.testing.assert_allclose(made, module(x).numpy(), atol=1e-5)
    assert netweave.compare(a, b).exit_status == 0

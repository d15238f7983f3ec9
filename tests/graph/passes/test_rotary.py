"""Rotary position embeddings put together again; PyTorch computes what they should be."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.graph.passes import to_inference  # noqa: E402
from netweave.graph.passes.folding import fold  # noqa: E402
from netweave.graph.passes.rotary import join_rotations  # noqa: E402
from netweave.runtime.backends import prepare  # noqa: E402

STEPS, WIDTH = 5, 8
ANGLES = torch.outer(torch.arange(STEPS).float(), 0.5 ** torch.arange(WIDTH // 2))


class Rotation(torch.nn.Module):
    """``x * cos + rotate(x) * sin``, as GPT-NeoX and Llama write it, or as GPT-J does."""

    def __init__(self, pairs: str, *, back: bool = False, apart: bool = False) -> None:
        super().__init__()
        self.pairs = pairs
        angles = torch.cat((ANGLES, ANGLES), -1) if pairs == "halves" else ANGLES.repeat_interleave(2, -1)
        sines = angles.sin() * (-1 if back else 1)
        if apart:  # what is no rotation: the two of a pair have sines of their own
            sines = sines + torch.arange(WIDTH)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", sines)
        self.back = back

    def forward(self, x):
        sign = -1 if self.back else 1
        if self.pairs == "halves":
            first, second = x.chunk(2, -1)
            turned = torch.cat((-second, first) if sign == 1 else (second, -first), -1)
        elif self.pairs == "neighbours":
            first, second = x[..., ::2], x[..., 1::2]
            turned = torch.stack((-second, first) if sign == 1 else (second, -first), -1).flatten(-2)
        else:
            turned = x.flip(-1)
        return x * self.cos + turned * self.sin


def rotated_by_complex_numbers(x: torch.Tensor, pairs: str) -> torch.Tensor:
    """The definition (RoFormer, equation 13): each pair is a complex number, turned by its angle."""
    half = WIDTH // 2
    first, second = (x[..., :half], x[..., half:]) if pairs == "halves" else (x[..., ::2], x[..., 1::2])
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(ANGLES), ANGLES)
    parts = turned.real, turned.imag
    return torch.cat(parts, -1) if pairs == "halves" else torch.stack(parts, -1).flatten(-2)


def joined(module):
    graph = to_inference(netweave.load(module, input_shapes={"x": (1, 2, STEPS, WIDTH)}))
    fold.edit(graph)
    return join_rotations(graph)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_a_rotation_is_one_operator_that_turns_complex_numbers(pairs, back):
    graph = joined(Rotation(pairs, back=back).eval())
    (node,) = graph.nodes
    assert (node.op_type, node.attributes["interleaved"].as_int()) == (
        "RotaryEmbedding",
        pairs == "neighbours",
    )
    x = np.random.default_rng(0).standard_normal((3, 2, STEPS, WIDTH), dtype=np.float32)
    (y,) = prepare(graph).run({graph.inputs[0].name: x}).values()
    np.testing.assert_allclose(y, rotated_by_complex_numbers(torch.from_numpy(x), pairs).numpy(), atol=1e-5)


@pytest.mark.parametrize(("pairs", "apart"), [("flipped", False), ("halves", True)])
def test_what_turns_no_pairs_stays(pairs, apart):
    graph = joined(Rotation(pairs, apart=apart).eval())
    assert "RotaryEmbedding" not in {node.op_type for node in graph.nodes}


class RotationByPositions(torch.nn.Module):
    """A rotation of heads by positions that are an input, in the ways that code writes it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x, positions):
        angle = positions[..., None].float() * 0.5 ** torch.arange(WIDTH // 2)
        first, second = x.chunk(2, -1)
        if self.way == "repeated":
            both = torch.cat((angle, angle), -1)
            return x * both.cos()[:, None] + torch.cat((-second, first), -1) * both.sin()[:, None]
        if self.way == "repeated late":
            cos, sin = (torch.cat((y, y), -1).unsqueeze(1) for y in (angle.cos(), angle.sin()))
            return x * cos + torch.cat((-second, first), -1) * sin
        angle = angle[:, None]
        sin = angle.sin() if self.way == "halves" else (-angle).sin()
        if self.way == "two angles":
            sin = (2 * angle).sin()
        return torch.cat((first * angle.cos() - second * sin, second * angle.cos() + first * sin), -1)


def joined_by_positions(way):
    examples = [torch.zeros(2, 3, STEPS, WIDTH), torch.ones(2, STEPS, dtype=torch.long)]
    graph = to_inference(netweave.load(RotationByPositions(way).eval(), examples=examples))
    return join_rotations(graph)


@pytest.mark.parametrize("way", ["repeated", "repeated late", "halves"])
def test_a_rotation_by_positions_is_one_operator(way):
    graph = joined_by_positions(way)
    ops = [node.op_type for node in graph.nodes]
    assert ops[-1] == "RotaryEmbedding"
    assert (ops.count("Cos"), ops.count("Sin"), ops.count("Concat"), ops.count("Neg")) == (1, 1, 0, 0)
    x = np.random.default_rng(0).standard_normal((2, 3, STEPS, WIDTH)).astype(np.float32)
    positions = np.stack([np.arange(STEPS), np.arange(STEPS)[::-1]])
    (made,) = prepare(graph).run({"x": x, "positions": positions}).values()
    np.testing.assert_allclose(
        made[0], rotated_by_complex_numbers(torch.from_numpy(x[0]), "halves"), atol=1e-5
    )
    expected = RotationByPositions("halves")(torch.from_numpy(x), torch.from_numpy(positions))
    np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize("way", ["two angles"])
def test_what_turns_by_two_angles_is_no_rotation(way):
    assert "RotaryEmbedding" not in [node.op_type for node in joined_by_positions(way).nodes]

"""Attention to a cache that has room for more steps than are written."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.metric import comparable  # noqa: E402
from netweave.runtime.backends import prepare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn  # noqa: E402

STEPS, ROOM, HEADS, HEAD, WIDTH = 7, 20, 4, 6, 24


class Attention(torch.nn.Module):
    """Queries, keys and values in one dense layer, two heads of keys, turned; no step is before.

    Args:
        is_kept: Keys and values are written into a cache, as in gpt-fast.
        is_interleaved: The rotation turns neighbours.
        beyond: Steps beyond those written that the mask shows.
    """

    def __init__(self, *, is_kept, is_interleaved=False, beyond=0, by_copy=False):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False), torch.nn.Linear(WIDTH, WIDTH)
        self.is_kept, self.is_interleaved, self.by_copy = is_kept, is_interleaved, by_copy
        for name in "kv" if is_kept else "":
            self.register_buffer(f"held_{name}", torch.zeros(2, 2, ROOM, HEAD), persistent=False)
        far = torch.arange(ROOM)[:, None] + beyond - torch.arange(ROOM)
        self.register_buffer("seen", far >= 0, persistent=False)
        angles = torch.arange(ROOM)[:, None] * 10.0 ** -torch.arange(HEAD // 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turned(self, x, places):
        cos, sin = self.cos[places], self.sin[places]
        if self.is_interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        q, k, v = (y.unflatten(2, (-1, HEAD)).transpose(1, 2) for y in self.qkv(x).split([24, 12, 12], -1))
        q, k = self.turned(q, places), self.turned(k, places)
        seen = self.seen[places]
        if self.is_kept and self.by_copy:
            k, v = self.held_k.index_copy(2, places, k), self.held_v.index_copy(2, places, v)
        elif self.is_kept:
            held_k, held_v = self.held_k, self.held_v
            held_k[:, :, places], held_v[:, :, places] = k, v
            k, v = held_k, held_v
        else:
            seen = seen[:, : x.shape[1]]
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen[None, None])
        return self.out(y.transpose(1, 2).flatten(2))


def loaded(net):
    return netweave.load(net, examples=[torch.zeros(2, STEPS, WIDTH)])


def of_halves(net):
    """Return a net with the weights of one that turns neighbours, in the order of halves."""
    other = copied(net, Attention(is_kept=False))
    order = torch.arange(HEAD).reshape(-1, 2).T.reshape(-1)
    rows = torch.arange(2 * WIDTH).reshape(-1, HEAD)
    rows[:6] = rows[:6][:, order]
    with torch.no_grad():
        other.qkv.weight.copy_(net.qkv.weight[rows.flatten()])
    return other


@pytest.mark.parametrize("by_copy", [False, True])
def test_a_cache_under_a_mask_is_read_as_far_as_it_is_written(by_copy):
    net = drawn(Attention(is_kept=True, by_copy=by_copy))
    graph = comparable(loaded(net))
    assert not [node for node in graph.nodes if "Scatter" in node.op_type]
    assert all(ROOM not in (value.shape or ()) for node in graph.nodes for value in node.outputs)
    x = torch.randn(2, STEPS, WIDTH, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        wanted = net(x).numpy()
    (made,) = prepare(graph).run({str(graph.inputs[0].name): x.numpy()}).values()
    assert np.abs(made - wanted).max() < 1e-5


def test_a_mask_that_shows_unwritten_steps_keeps_the_cache():
    graph = comparable(loaded(drawn(Attention(is_kept=True, beyond=2))))
    assert [node for node in graph.nodes if "Scatter" in node.op_type]
    a = drawn(Attention(is_kept=False))
    b = copied(a, Attention(is_kept=True, beyond=2))
    assert compare(loaded(a), loaded(b)).verdict is Verdict.DIFFERENT


def test_a_cache_and_a_rotation_of_neighbours_leave_no_finding():
    b = drawn(Attention(is_kept=True, is_interleaved=True))
    a = of_halves(b)
    x = torch.randn(2, STEPS, WIDTH, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        assert torch.allclose(a(x), b(x), atol=1e-5)
    found = compare(loaded(a), loaded(b), num_samples=2)
    assert found.equal
    assert not found.findings

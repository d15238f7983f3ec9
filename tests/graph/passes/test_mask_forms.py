"""Masks that are inputs, in the ways that code writes them; PyTorch says what they compute."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.metric import comparable  # noqa: E402
from netweave.graph import GraphBuilder  # noqa: E402
from netweave.graph.passes.mask_forms import settle_masks  # noqa: E402
from netweave.runtime.backends import prepare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn  # noqa: E402

STEPS, WIDTH = 6, 8
LOWEST = torch.finfo(torch.float32).min

WAYS = {
    "added": lambda s, mask, seen: s + torch.where(seen & (mask != 0)[:, None, None], 0.0, LOWEST),
    "filled": lambda s, mask, seen: s.masked_fill(~(seen & (mask == 1)[:, None, None]), float("-inf")),
    "two fills": lambda s, mask, seen: s.masked_fill(~seen, -1e9).masked_fill(
        mask[:, None, None] == 0, LOWEST
    ),
    "complement": lambda s, mask, seen: (
        torch.where(seen, s, -1e9) + (1.0 - mask[:, None, None].float()) * -1e9
    ),
    "complements": lambda s, mask, seen: (1 - mask.float())[:, None, None] * -1e30 + (
        s + (1 - seen.float()) * -1e9
    ),
    "cast": lambda s, mask, seen: s
    + torch.where(mask[:, None, None].bool() & (mask > 0)[:, None, None] & seen, 0.0, -1e9),
    "or": lambda s, mask, seen: s.masked_fill(~seen | (mask == 0)[:, None, None], -1e9),
}  # fmt: skip


class Attention(torch.nn.Module):
    """Two heads of four features; with ``sees_padding`` the mask does not count."""

    def __init__(self, way, *, sees_padding=False):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.way, self.sees_padding = way, sees_padding

    def forward(self, x, mask):
        q, k, v = (y.unflatten(2, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        seen = torch.ones(STEPS, STEPS, dtype=torch.bool).tril()
        mask = mask | 1 if self.sees_padding else mask
        scores = WAYS[self.way](q @ k.transpose(2, 3) / 2, mask, seen)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.fixture(scope="module")
def original():
    return drawn(Attention("added"))


def loaded(net):
    examples = [torch.zeros(2, STEPS, WIDTH), torch.ones(2, STEPS, dtype=torch.long)]
    return netweave.load(net, examples=examples)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_one_choice_that_computes_the_same(original, way):
    net = copied(original, Attention(way))
    graph = comparable(loaded(net))
    ops = [node.op_type for node in graph.nodes]
    assert ops.count("Where") == ops.count("And") == ops.count("Softmax") == 1
    assert not {"Sub", "Equal", "Not", "Greater", "Or"} & set(ops)
    draws = np.random.default_rng(0)
    mask = draws.integers(0, 2, (3, STEPS))
    mask[:, 0] = 1
    x = draws.standard_normal((3, STEPS, WIDTH)).astype(np.float32)
    with torch.no_grad():
        expected = net(torch.from_numpy(x), torch.from_numpy(mask)).numpy()
    (made,) = prepare(graph).run({"x": x, "mask": mask}).values()
    np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "added"])
def test_each_way_is_equal_on_zeros_and_ones(original, way):
    found = compare(loaded(original), loaded(copied(original, Attention(way))))
    assert found.verdict is (Verdict.IDENTICAL if way in {"two fills", "or"} else Verdict.LATENT)
    assert ("other than 0 and 1 (the nets differ on them)" in found.sentence) is (
        found.verdict is Verdict.LATENT
    )
    assert not found.findings


def test_a_mask_that_does_not_count_is_found(original):
    found = compare(loaded(original), loaded(copied(original, Attention("filled", sees_padding=True))))
    assert found.verdict is Verdict.DIFFERENT


def test_whole_numbers_that_are_no_mask_are_not_taken_for_one():
    class Net(torch.nn.Module):
        def forward(self, x, number):
            return x + (1.0 - number.float()) * -1e9

    graph = netweave.load(Net(), examples=[torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.long)])
    assert "Sub" in [node.op_type for node in comparable(graph).nodes]


@pytest.mark.parametrize("is_inverted", [False, True])
@pytest.mark.parametrize("fill", [-np.inf, -1e9, -1.0])
def test_a_stored_mask_is_filled_with_one_number(is_inverted, fill):
    """A row without any score keeps its number: of minus infinities a softmax makes none."""
    seen = np.tri(STEPS, dtype=bool)
    for rows, is_changed in ((seen, fill != -1.0), (seen & (np.arange(STEPS) > 0), False)):
        builder = GraphBuilder("net", format="onnx")
        scores = builder.input("x", (2, STEPS, STEPS))
        hidden = builder.constant(fill)
        condition = builder.constant(~rows if is_inverted else rows, dtype=bool)
        branches = [hidden, scores] if is_inverted else [scores, hidden]
        chosen = builder.add("Where", [condition, *branches])
        graph = builder.finish([builder.add("Softmax", [chosen], {"axis": -1})])
        x = {"x": np.random.default_rng(0).standard_normal((2, STEPS, STEPS), dtype=np.float32)}
        before = next(iter(prepare(graph).run(x).values()))
        settle_masks.edit(graph)
        after = next(iter(prepare(graph).run(x).values()))
        np.testing.assert_array_equal(before, after)
        numbers = {
            float(value.const_value.numpy().min()) for value in graph.model.graph.initializers.values()
        }
        assert (LOWEST in numbers) is is_changed

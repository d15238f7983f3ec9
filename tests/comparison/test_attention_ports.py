"""Attention that ports write otherwise, or mask and rotate otherwise; PyTorch says which are equal."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from netweave.comparison import compare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn, effective, load  # noqa: E402

FEATURES, HEADS, STEPS = 16, 2, 7
WIDTH = FEATURES // HEADS
ADDED = {"added": -1e9, "lowest": torch.finfo(torch.float32).min, "infinite": -math.inf}
LATER = torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1)


class Attention(nn.Module):
    """Attention by torch's function or in parts, scaled behind the product or before it, masked, rotated."""

    def __init__(self, *, core: str = "parts", mask: str = "", pairs: str = "") -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(FEATURES, FEATURES) for _ in range(4))
        self.core, self.mask, self.pairs = core, mask, pairs
        angles = torch.outer(torch.arange(STEPS).float(), 0.5 ** torch.arange(WIDTH // 2))
        angles = torch.cat((angles, angles), -1) if pairs == "halves" else angles.repeat_interleave(2, -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotated(self, x):
        if not self.pairs:
            return x
        if self.pairs == "halves":
            first, second = x.chunk(2, -1)
            return x * self.cos + torch.cat((-second, first), -1) * self.sin
        return x * self.cos + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * self.sin

    def forward(self, x):
        n = x.shape[0]
        q, k, v = (
            layer(x).view(n, STEPS, HEADS, WIDTH).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q, k = self.rotated(q), self.rotated(k)
        if self.core == "before":
            y = ((q / math.sqrt(WIDTH)) @ k.transpose(-1, -2)).softmax(-1) @ v
        elif self.core == "einsum":
            q, k, v = (layer(x).view(n, STEPS, HEADS, WIDTH) for layer in (self.q, self.k, self.v))
            scores = torch.einsum("nqhd,nkhd->nhqk", q, k) * WIDTH**-0.5
            scores = torch.where(LATER, -1e9, scores)
            y = torch.einsum("nhqk,nkhd->nqhd", scores.softmax(-1), v).transpose(1, 2)
        elif self.core == "function":
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=bool(self.mask))
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
            if self.mask in ADDED:
                scores = scores + torch.full((STEPS, STEPS), ADDED[self.mask]).triu(1)
            elif self.mask:
                scores = scores.masked_fill(LATER, float("-inf"))
            y = scores.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(n, STEPS, FEATURES))


def pair(a: dict, b: dict):
    """Return two nets of the same weights, and whether PyTorch makes the same of both."""
    right = drawn(Attention(**a))
    ported = copied(right, Attention(**b))
    x = torch.rand(2, STEPS, FEATURES, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        is_same = torch.allclose(right(x), ported(x), atol=1e-5)
    shapes = {"x": (1, STEPS, FEATURES)}
    return compare(load(right, **shapes), load(ported, **shapes)), is_same


FUNCTION, PARTS = {"core": "function"}, {"core": "parts"}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (FUNCTION, PARTS),
        (FUNCTION, {"core": "before"}),
        ({**FUNCTION, "mask": "own"}, {**PARTS, "mask": "filled"}),
        ({**PARTS, "mask": "added"}, {**PARTS, "mask": "filled"}),
        ({**PARTS, "mask": "lowest"}, {**PARTS, "mask": "infinite"}),
        ({**PARTS, "mask": "filled"}, {"core": "einsum", "mask": "chosen"}),
    ],
    ids=[
        "function or parts",
        "one factor or two",
        "function or filled",
        "added or filled",
        "lowest or minus infinity",
        "filled or chosen",
    ],
)
def test_the_same_attention_written_otherwise_is_identical(a, b):
    found, is_same = pair(a, b)
    assert is_same
    assert found.equal
    assert not found.findings


@pytest.mark.parametrize(
    ("a", "b", "fix"),
    [
        ({**FUNCTION, "mask": "own"}, PARTS, "mask later steps, as is_causal=True does"),
        (PARTS, {**PARTS, "mask": "filled"}, "remove the causal mask"),
    ],
    ids=["B lacks it", "B has one"],
)
def test_a_causal_mask_of_one_net_alone_is_told(a, b, fix):
    found, is_same = pair(a, b)
    assert not is_same
    assert [(finding.mismatch, finding.fix) for finding in effective(found)] == [("causal-mask", fix)]


class Own(nn.Module):
    """Two of PyTorch's layers of attention, which compute on (L, N, E)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(FEATURES, HEADS, batch_first=True) for _ in range(2)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        return x


class Parts(nn.Module):
    """The same on (N, L, E)."""

    def __init__(self, own: Own) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in own.layers)
        for layer, other in zip(self.layers, own.layers, strict=True):
            weights, biases = other.in_proj_weight.chunk(3), other.in_proj_bias.chunk(3)
            dense = [*zip((layer.q, layer.k, layer.v), weights, biases, strict=True)]
            for part, weight, bias in [*dense, (layer.o, other.out_proj.weight, other.out_proj.bias)]:
                part.weight.data, part.bias.data = weight.data.clone(), bias.data.clone()

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


@pytest.mark.parametrize("is_own_first", [True, False])
def test_dense_layers_over_steps_and_over_examples_first_are_the_same(is_own_first):
    own = drawn(Own())
    nets = [own, Parts(own).eval()]
    first, second = nets if is_own_first else reversed(nets)
    found = compare(*(load(net, x=(2, STEPS, FEATURES)) for net in (first, second)))
    assert found.equal
    assert not found.findings


class Packed(nn.Module):
    """The same with one dense layer for all three, whose parts are taken along an axis of their own."""

    def __init__(self, own: Own) -> None:
        super().__init__()
        self.packed = nn.ModuleList(nn.Linear(FEATURES, 3 * FEATURES) for _ in own.layers)
        self.out = nn.ModuleList(nn.Linear(FEATURES, FEATURES) for _ in own.layers)
        for layer, out, other in zip(self.packed, self.out, own.layers, strict=True):
            layer.weight, layer.bias = other.in_proj_weight, other.in_proj_bias
            out.weight, out.bias = other.out_proj.weight, other.out_proj.bias

    def forward(self, x):
        for layer, out in zip(self.packed, self.out, strict=True):
            n, steps, width = x.shape
            parts = layer(x).reshape(n, steps, 3, HEADS, width // HEADS)
            q, k, v = (parts[:, :, number].transpose(1, 2) for number in range(3))
            made = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + out(made.transpose(1, 2).reshape(n, steps, width))
        return x


@pytest.mark.parametrize("is_own_first", [True, False])
def test_parts_of_one_dense_layer_are_taken_steps_first_or_along_an_axis_of_their_own(is_own_first):
    own = drawn(Own())
    nets = [own, Packed(own).eval()]
    first, second = nets if is_own_first else reversed(nets)
    found = compare(*(load(net, x=(2, STEPS, FEATURES)) for net in (first, second)))
    assert found.equal
    assert not found.findings


class Block(nn.Module):
    """A block of a transformer that is given (L, N, E), between transposes, or (N, L, E)."""

    def __init__(self, *, steps_first: bool, eps: float = 1e-5) -> None:
        super().__init__()
        self.steps_first = steps_first
        self.norm1, self.norm2 = nn.LayerNorm(FEATURES), nn.LayerNorm(FEATURES, eps=eps)
        self.attention = nn.MultiheadAttention(FEATURES, HEADS, batch_first=not steps_first)
        self.mlp = nn.Sequential(nn.Linear(FEATURES, 24), nn.GELU(), nn.Linear(24, FEATURES))
        self.head = nn.Linear(FEATURES, 3)
        places = torch.rand(1, STEPS, FEATURES, generator=torch.Generator().manual_seed(2))
        self.register_buffer("places", places, persistent=False)

    def forward(self, x):
        x = torch.tanh(x)
        x = x.transpose(0, 1) + self.places.transpose(0, 1) if self.steps_first else x + self.places
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.head(x[0] if self.steps_first else x[:, 0])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_residual_whose_steps_come_first_is_one_whose_examples_do(is_first):
    a = drawn(Block(steps_first=is_first))
    nets = [a, copied(a, Block(steps_first=not is_first))]
    found = compare(*(load(net, x=(2, STEPS, FEATURES)) for net in nets))
    assert found.equal
    assert not found.findings


def test_a_mistake_where_steps_come_first_is_named():
    a = drawn(Block(steps_first=False))
    nets = [a, copied(a, Block(steps_first=True, eps=0.1))]
    (finding,) = compare(*(load(net, x=(2, STEPS, FEATURES)) for net in nets)).findings
    assert (finding.mismatch, finding.layer_a, finding.layer_b) == ("epsilon", "norm2", "norm2")


class Grouped(nn.Module):
    """Attention whose keys and values are repeated, along the axis of heads, where that stands."""

    def __init__(self, *, repeated: str) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(FEATURES, 32), nn.Linear(FEATURES, 16), nn.Linear(FEATURES, 16)
        self.repeated = repeated

    def forward(self, x):
        n, length = x.shape[:2]
        q = self.q(x).view(n, length, 4, WIDTH).transpose(1, 2)
        k, v = (layer(x).view(n, length, 2, WIDTH) for layer in (self.k, self.v))
        if self.repeated == "before":
            k, v = (part.repeat_interleave(2, 2).transpose(1, 2) for part in (k, v))
        elif self.repeated == "tiled":
            k, v = (part.repeat(1, 1, 2, 1).transpose(1, 2) for part in (k, v))
        else:
            k, v = (part.transpose(1, 2).repeat_interleave(2, 1) for part in (k, v))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, 32)


@pytest.mark.findings_by_order(reason="heads that A tiles are said once more where they are read")
@pytest.mark.parametrize("repeated", ["before", "tiled"])
def test_heads_are_repeated_before_they_are_transposed_or_after(repeated):
    a = drawn(Grouped(repeated="behind"))
    nets = [a, copied(a, Grouped(repeated=repeated))]
    found = compare(*(load(net, x=(2, STEPS, FEATURES)) for net in nets))
    assert ["those of B are tiled" in finding.cause for finding in found.findings] == [True] * (
        2 if repeated == "tiled" else 0
    )


class Windows(nn.Module):
    """Attention within two windows that overlap two images: a bias for all, and a mask for each of them."""

    def __init__(self, *, joined: bool, shifted: int = 1) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(FEATURES, FEATURES) for _ in range(4))
        self.bias = nn.Parameter(torch.zeros(HEADS, 4, 4))
        self.joined = joined
        mask = torch.zeros(2, 4, 4)
        mask[1, :shifted, shifted:], mask[1, shifted:, :shifted] = -100.0, -100.0
        self.register_buffer("window_mask", mask, persistent=False)

    def forward(self, x):
        n = x.shape[0]
        x = torch.tanh(x).view(2 * n, 4, FEATURES)
        q, k, v = (layer(x).view(-1, 4, HEADS, WIDTH).transpose(1, 2) for layer in (self.q, self.k, self.v))
        if self.joined:
            mask = self.window_mask[None, :, None].expand(n, 2, 1, 4, 4).reshape(2 * n, 1, 4, 4)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask + self.bias)
        else:
            scores = q * WIDTH**-0.5 @ k.transpose(-2, -1) + self.bias
            scores = scores.view(n, 2, HEADS, 4, 4) + self.window_mask[None, :, None]
            y = scores.view(2 * n, HEADS, 4, 4).softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(n, 8, FEATURES))


@pytest.mark.parametrize("is_joined", [True, False])
def test_a_mask_for_each_window_is_added_once_or_to_the_windows_of_each_image(is_joined):
    a = drawn(Windows(joined=is_joined))
    nets = [a, copied(a, Windows(joined=not is_joined))]
    found = compare(*(load(net, x=(2, 8, FEATURES)) for net in nets))
    assert found.equal
    assert not found.findings


def test_windows_that_are_shifted_further_are_told_by_their_mask():
    a = drawn(Windows(joined=True))
    nets = [a, copied(a, Windows(joined=False, shifted=2))]
    (finding,) = compare(*(load(net, x=(2, 8, FEATURES)) for net in nets)).findings
    assert "-100" in finding.cause


def test_other_pairs_of_a_rotary_embedding_are_told_at_queries_and_keys():
    found, is_same = pair({"pairs": "halves"}, {"pairs": "neighbours"})
    assert not is_same
    assert [finding.mismatch for finding in effective(found)] == ["rotary-pairing"] * 2
    for finding in effective(found):
        assert "of A pairs feature i with feature i + d/2" in finding.cause
        assert "of B pairs neighbours" in finding.cause


class Steps(nn.Module):
    """What is computed step by step, of tensors whose steps or whose features come last."""

    def __init__(self, *, turned: bool, axis: int = 1) -> None:
        super().__init__()
        self.dense, self.out, self.turned, self.axis = nn.Linear(5, STEPS), nn.Linear(STEPS, 3), turned, axis

    def forward(self, x):
        x = torch.sigmoid(self.dense(x))
        if self.turned:
            x = torch.sin(x.transpose(1, 2)).contiguous()
            steps = [x[:, :, i] if self.axis == 1 else x[:, i] for i in range(3)]
        else:
            x = torch.sin(x)
            steps = [x[:, i] if self.axis == 1 else x[:, :, i] for i in range(3)]
        state = torch.zeros_like(steps[0])
        for step in steps:
            state = torch.tanh(state * 0.5 + step)
        return self.out(state)


@pytest.mark.parametrize("axis", [1, 2])
def test_steps_are_taken_along_one_axis_of_a_tensor_or_of_its_transpose(axis):
    a = drawn(Steps(turned=False))
    nets = [a, copied(a, Steps(turned=True, axis=axis))]
    found = compare(*(load(net, x=(2, STEPS, 5)) for net in nets))
    assert found.equal == (axis == 1)
    assert bool(found.findings) == (axis == 2)


class GroupAxis(nn.Module):
    """Attention of four query heads in two groups: keys and values are repeated, or have one axis more."""

    def __init__(self, core: str, mask: str = "infinite", *, is_tiled: bool = False) -> None:
        super().__init__()
        self.q, self.o = (nn.Linear(FEATURES, FEATURES) for _ in range(2))
        self.k, self.v = (nn.Linear(FEATURES, FEATURES // 2) for _ in range(2))
        self.core, self.mask, self.is_tiled = core, mask, is_tiled

    def forward(self, x):
        n, size = x.shape[0], FEATURES // 4
        q, k, v = (layer(x).view(n, STEPS, -1, size) for layer in (self.q, self.k, self.v))
        bias = torch.full((STEPS, STEPS), ADDED[self.mask]).triu(1)
        if self.core == "repeated":
            k, v = (y.repeat(1, 1, 2, 1) if self.is_tiled else y.repeat_interleave(2, dim=2) for y in (k, v))
            q, k, v = (each.transpose(1, 2) for each in (q, k, v))
            y = (q @ k.transpose(-1, -2) / math.sqrt(size) + bias).softmax(-1) @ v
            return self.o(y.transpose(1, 2).reshape(n, STEPS, FEATURES))
        q = q.view(n, STEPS, 2, 2, size)
        if self.core == "einsum":
            scores = torch.einsum("nqgrd,nkgd->ngrqk", q, k) / math.sqrt(size) + bias
            y = torch.einsum("ngrqk,nkgd->nqgrd", scores.softmax(-1), v)
        elif self.core == "keys first":
            scores = torch.einsum("nkgd,nqgrd->ngqrk", k, q).transpose(2, 3) / math.sqrt(size)
            weights = torch.where(LATER, ADDED[self.mask], scores).softmax(-1)
            y = torch.einsum("nkgd,ngrqk->ngrqd", v, weights).permute(0, 3, 1, 2, 4)
        else:
            k, v = (each.transpose(1, 2)[:, :, None] for each in (k, v))
            scores = q.permute(0, 2, 3, 1, 4) @ k.transpose(-1, -2) / math.sqrt(size)
            y = ((scores + bias).softmax(-1) @ v).permute(0, 3, 1, 2, 4)
        return self.o(y.reshape(n, STEPS, FEATURES))


def grouped_pair(core: str, *, is_tiled: bool = False):
    right = drawn(GroupAxis("repeated", is_tiled=is_tiled))
    ported = copied(right, GroupAxis(core))
    return compare(*(load(net, x=(1, STEPS, FEATURES)) for net in (right, ported)))


@pytest.mark.parametrize("core", ["einsum", "keys first", "broadcast"])
def test_grouped_queries_are_repeated_keys_and_values(core):
    found = grouped_pair(core)
    assert found.equal
    assert not effective(found), [finding.cause for finding in effective(found)]


@pytest.mark.findings_by_order(reason="heads that A tiles are said of the layer that repeats them")
def test_grouped_queries_are_no_tiled_keys_and_values():
    found = grouped_pair("einsum", is_tiled=True)
    assert not found.equal
    first, *_ = effective(found)
    assert "those of A are tiled" in first.cause or "the heads of A are tiled" in first.cause


class Gated(nn.Module):
    """Attention that is no operator of ONNX, since its weights are scaled by key; capped, in a window."""

    def __init__(self, *, scales_queries=False, window=3):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.gate = nn.Parameter(torch.rand(6))
        self.scales_queries, self.window = scales_queries, window

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        scores = (q * 0.5) @ k.mT if self.scales_queries else q @ k.mT * 0.5
        scores = 4 * torch.tanh(scores / 4)
        apart = torch.arange(6)[:, None] - torch.arange(6)
        scores = torch.where((apart >= 0) & (apart < self.window), scores, -2e38)
        return (scores.softmax(-1) * self.gate) @ self.v(x)


@pytest.mark.parametrize(
    ("changed", "causes"),
    [
        ({"scales_queries": True}, set()),
        (
            {"window": 4},
            {
                "in the attention of A each step sees a window of 3, itself and those before; in B each "
                "step sees a window of 4, itself and those before"
            },
        ),
    ],
)
def test_scales_and_masks_of_attention_that_is_no_operator(changed, causes):
    right = drawn(Gated())
    found = compare(*(load(net, x=(1, 6, 8)) for net in (right, copied(right, Gated(**changed)))))
    assert {finding.cause for finding in found.findings} == causes
    assert found.equal is not bool(causes)
    assert all(finding.error_fixed <= 1e-5 for finding in found.findings)


class Exchanged(nn.Module):
    """Causal attention by torch's function, with its queries and keys exchanged or not."""

    def __init__(self, *, is_exchanged=False):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.is_exchanged = is_exchanged

    def forward(self, x):
        q, k, v = (layer(x)[:, None] for layer in (self.q, self.k, self.v))
        q, k = (k, q) if self.is_exchanged else (q, k)
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_queries_and_keys_that_are_exchanged_are_named():
    right = drawn(Exchanged())
    found = compare(*(load(net, x=(1, 6, 8)) for net in (right, copied(right, Exchanged(is_exchanged=True)))))
    (finding,) = effective(found)
    assert finding.mismatch == "exchanged-operands"
    assert finding.error_fixed <= 1e-5

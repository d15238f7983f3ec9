"""Decoders that return a cache beside their logits. PyTorch says in each test whether single steps agree."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.formats.pytorch.cached_steps import compare_steps  # noqa: E402
from netweave.formats.pytorch.stepwise_calls import manners_of, returned_caches  # noqa: E402
from tests.comparison.cached_decoders import HEAD, HEADS, MOST, Listed, drawn  # noqa: E402

TOKENS, TOLERANCE = 12, 1e-3
IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 17


class Plain(Listed):
    def forward(self, ids):
        return super().forward(ids)


class Pairs(Listed):
    """A pair for each layer, in an argument and a place without a name that says so."""

    def forward(self, ids, before=None):
        return super().forward(ids, before, use_cache=True)


class InDict(Listed):
    """A dict with lists, and the hidden states after the cache."""

    def forward(self, ids, before=None):
        pairs = list(zip(before["k"], before["v"], strict=True)) if before else None
        logits, caches = super().forward(ids, pairs, use_cache=True)
        lists = {name: [cache[i] for cache in caches] for i, name in enumerate("kv")}
        return {"logits": logits, "after": lists, "hidden": self.embed(ids)}


class Stacked(Listed):
    """Keys and values of all layers in two arguments."""

    def forward(self, ids, keys=None, values=None):
        pairs = list(zip(keys, values, strict=True)) if keys is not None else None
        logits, caches = super().forward(ids, pairs, use_cache=True)
        return logits, torch.stack([k for k, _ in caches]), torch.stack([v for _, v in caches])


class Filled(Listed):
    """Room for all tokens, how many there are, and no switch."""

    def forward(self, ids, room=None):
        count = 0 if room is None else room[1]
        pairs = None if room is None else [(k[:, :, :count], v[:, :, :count]) for k, v in room[0]]
        logits, caches = super().forward(ids, pairs, use_cache=True)
        held = torch.zeros(len(ids), HEADS, MOST, HEAD)
        filled = [[torch.cat((x, held[:, :, x.shape[2] :]), 2) for x in pair] for pair in caches]
        return logits, (filled, count + ids.shape[1])


class Switched(Listed):
    """A cache on demand, by a switch that is not named for it, and where the tokens begin."""

    def forward(self, ids, before=None, going_on=False, first: int = 0):
        logits, caches = super().forward(ids, before, use_cache=True)
        logits = logits if first or before is None else logits + 1
        return (logits, caches) if going_on else logits


class Reversed(Pairs):
    """A cache whose later tokens stand first: single steps cannot tell."""

    def __init__(self):
        super().__init__()
        for layer in self.layers:
            layer.attention.forward = lambda x, past, part=layer.attention: attend(part, x, past)


def attend(part, x, past):
    """Attend to all tokens that are held, and to the new ones as they come."""
    q, k, v = part.heads(x)
    if past is not None:
        k, v = torch.cat((k, past[0]), 2), torch.cat((v, past[1]), 2)  # later first
    far = (torch.arange(x.shape[1]) + k.shape[2] - x.shape[1])[:, None] - torch.arange(k.shape[2])
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=far >= 0)
    return part.joined(y), (k, v)


FORMS = {Pairs: 4, InDict: 4, Stacked: 2, Filled: 4, Switched: 0}
"""Kinds of nets, each with the number of tensors of its cache that it returns without being asked."""


def given_back(net, made, before):
    """Return the arguments of the next call; nothing of the code under test is used."""
    if isinstance(net, InDict):
        return {"before": made["after"]}
    if isinstance(net, Stacked):
        return {"keys": made[1], "values": made[2]}
    return {"room" if isinstance(net, Filled) else "before": made[1]}


def steps_agree(net):
    stepped, rest = [], {}
    extra = {"going_on": True} if isinstance(net, Switched) else {}
    with torch.no_grad():
        whole = net(IDS)
        whole = (
            whole["logits"] if isinstance(whole, dict) else whole[0] if isinstance(whole, tuple) else whole
        )
        for place in range(TOKENS):
            if isinstance(net, Switched):
                extra["first"] = place
            made = net(IDS[:, place : place + 1], **rest, **extra)
            stepped.append(made["logits"] if isinstance(made, dict) else made[0])
            rest = given_back(net, made, rest)
    return torch.allclose(torch.cat(stepped, 1), whole, atol=1e-4)


@pytest.mark.parametrize("kind", FORMS)
def test_steps_go_through_what_a_net_takes_back(kind):
    assert steps_agree(drawn(kind()))
    assert not steps_agree(drawn(kind("positions")))
    with torch.no_grad():
        right, wrong = (compare_steps(drawn(kind(m)), [{"ids": IDS}], TOLERANCE) for m in ("", "positions"))
    assert "step" not in right
    assert right["num_steps"] == 11 + 6
    assert "position 1 is given position 0" in wrong["cause"]
    assert wrong["place"] == "layers.0.attention"


@pytest.mark.parametrize(("kind", "count"), FORMS.items())
def test_a_cache_is_known_among_the_outputs(kind, count):
    net = drawn(kind())
    with torch.no_grad():
        places = returned_caches(net, {"ids": IDS})
        leaves = [x for x in torch.utils._pytree.tree_leaves(net(IDS)) if isinstance(x, torch.Tensor)]
    assert places is not None
    assert len(places) == count
    shapes = [tuple(leaves[place].shape) for place in places]
    assert all(HEADS in shape and HEAD in shape for shape in shapes)  # neither logits nor hidden states


class Hidden(Plain):
    """Returns hidden states, which it also takes: in the place of tokens, or as something to look at."""

    def forward(self, ids, embedded=None, other=None, state=None):
        x = self.embed(ids) if embedded is None else embedded
        x = x if other is None else x + other.mean(1, keepdim=True)
        state = torch.zeros(1, len(ids), x.shape[2]) if state is None else state
        for layer in self.layers:
            x, _ = layer(x, None)
        return self.head(x), x, state + x.sum(1)


def test_hidden_states_and_states_of_one_size_are_no_cache():
    net = drawn(Hidden())
    with torch.no_grad():
        assert returned_caches(net, {"ids": IDS}) is None
        assert not list(manners_of(net, {"ids": IDS}))


def test_a_cache_in_reverse_is_found_by_several_tokens_at_once():
    net = drawn(Reversed())
    with torch.no_grad():
        whole = net(IDS)[0]
        _, half = net(IDS[:, :7])
        assert not torch.allclose(net(IDS[:, 7:], half)[0], whole[:, 7:], atol=1e-2)
        found = compare_steps(net, [{"ids": IDS}], TOLERANCE)
    assert steps_agree(net)
    assert (
        found["cause"]
        == "the keys of the tokens from position 7 on stand before those of the tokens before them"
    )
    line = int(found["line"].rpartition(":")[2])
    assert "# later first" in Path(__file__).read_text().splitlines()[line - 1]


class OneByOne(Listed):
    """A cache for single tokens: of several, each sees all that are held and those up to it."""

    def forward(self, ids, before=None):
        if before is not None and ids.shape[1] > 1:
            return super().forward(ids.flip(0), before, use_cache=True)
        return super().forward(ids, before, use_cache=True)


def loaded(net):
    return netweave.load(drawn(net), input_shapes={"ids": (1, TOKENS)})


@pytest.mark.slow
def test_a_returned_cache_is_no_output_to_compare():
    plain = loaded(Plain())
    found = compare(plain, loaded(Pairs()))
    assert found.verdict is Verdict.IDENTICAL
    assert (
        "4 of B's 5 outputs are a cache that it takes back: steps through it are compared instead"
        in found.notes
    )
    assert found.probes[-1] == "single steps through B's before"
    wrong = compare(plain, loaded(Filled("positions")))
    assert wrong.verdict is Verdict.DIFFERENT
    assert "position 1 is given position 0" in wrong.sentence
    single = compare(plain, loaded(OneByOne()))
    assert single.verdict is Verdict.LATENT
    assert "several tokens at once through the filled before of B (other than one pass" in single.sentence


class Padded(Listed):
    """A cache, and a mask that takes padding out; positions are learned, and counted from the first token."""

    def __init__(self, mistake=""):
        super().__init__()
        self.mistake = mistake
        self.places = torch.nn.Embedding(MOST, 16)

    def forward(self, ids, attention_mask=None, past_key_values=None, use_cache=False):
        count = ids.shape[1]
        start = past_key_values[0][0].shape[2] if past_key_values is not None else 0
        mask = torch.ones(len(ids), start + count) if attention_mask is None else attention_mask
        places = (mask.long().cumsum(1) - 1).clamp(min=0)[:, start:]
        if self.mistake == "absolute" or (self.mistake == "absolute steps" and start):
            places = torch.arange(start, start + count)[None]
        if self.mistake == "no mask" or (self.mistake == "no mask in steps" and start):
            mask = torch.ones(len(ids), start + count)
        far = torch.arange(count)[:, None] + start - torch.arange(start + count)
        seen = torch.where((far >= 0) & (mask[:, None, None] > 0), 0.0, torch.finfo(torch.float32).min)
        x, caches = self.embed(ids) + self.places(places), []
        for i, layer in enumerate(self.layers):
            q, k, v = layer.attention.heads(layer.norm(x))
            if past_key_values is not None:
                k, v = (torch.cat(pair, 2) for pair in zip(past_key_values[i], (k, v), strict=True))
            caches.append((k, v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = x + layer.attention.joined(y)
        return (self.head(x), caches) if use_cache else self.head(x)


@pytest.mark.slow
def test_padding_is_tried_through_a_mask_that_was_left_out():
    with torch.no_grad():  # PyTorch's own word
        padded = torch.tensor([[0] * 3 + [1] * 9] * 2)
        for mistake, agrees in {
            "": True,
            "no mask": False,
            "absolute": False,
            "no mask in steps": True,
        }.items():
            net = drawn(Padded(mistake))
            assert torch.allclose(net(IDS, padded)[:, 3:], net(IDS[:, 3:]), atol=1e-4) == agrees
    right = loaded(Padded())
    same = compare(right, loaded(Padded()))
    assert same.sentence == "identical: the output is identical"
    assert "padding before the tokens, under attention_mask" in same.probes
    found = compare(right, loaded(Padded("absolute")))
    assert found.verdict is Verdict.LATENT
    assert "A gives the tokens after it what it gives them without it, B does not" in found.sentence
    found = compare(right, loaded(Padded("no mask in steps")))
    assert found.verdict is Verdict.DIFFERENT
    assert "as well, other than one pass" in found.sentence

"""Decoders with caches: single steps against one pass. PyTorch says in each test whether they agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.formats.pytorch.cached_steps import compare_steps  # noqa: E402
from netweave.formats.pytorch.stepwise_calls import has_cache  # noqa: E402
from tests.comparison import cached_decoders  # noqa: E402
from tests.comparison.cached_decoders import Kept, Listed, drawn  # noqa: E402

TOKENS, TOLERANCE = 12, 1e-3
IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 17


def steps_agree(net):
    """Return whether single steps of a net give what one pass gives, without the code under test."""
    stepped, cache = [], None
    with torch.no_grad():
        whole = net(IDS)
        for place in range(TOKENS):
            token = IDS[:, place : place + 1]
            if isinstance(net, Listed):
                made, cache = net(token, past_key_values=cache, use_cache=True)
            else:
                made = net(token, start_pos=place)
            stepped.append(made)
    return torch.allclose(torch.cat(stepped, 1), whole, atol=1e-4)


@pytest.mark.parametrize("kind", [Listed, Kept])
def test_steps_of_right_caches_agree(kind):
    assert steps_agree(drawn(kind()))
    with torch.no_grad():
        found = compare_steps(drawn(kind()), [{"ids": IDS}], TOLERANCE)
    assert "step" not in found
    assert found["error"] < 1e-5
    assert found["num_steps"] == 11 + 6


CASES = [
    (Listed, "positions", "position 1 is given position 0", "def where"),
    (Listed, "positions-ahead", "position 1 is given position 2", "def where"),
    (Listed, "causal", "is_causal is set for a single token", "is_causal=True"),
    (Listed, "window", "sees tokens? .* as well", ""),
    (Listed, "turned-twice", "sees the same tokens before it as one pass", ""),
    (Listed, "last-lost", "does not see token", ""),
    (Kept, "rows", "reads row 0 of a table or mask", "self.cos["),
    (Kept, "mask-row", "reads row 0 of a table or mask", "self.mask["),
    (Kept, "writes", "position 1 at place 2", "# self.keys["),
    (Kept, "samples", "position 1 depends on the tokens of other samples", ""),
    (Kept, "swapped", "sees the same tokens before it as one pass", ""),
]


@pytest.mark.parametrize(("kind", "mistake", "cause", "code"), CASES, ids=[case[1] for case in CASES])
def test_the_cause_of_wrong_steps_is_found(kind, mistake, cause, code):
    assert not steps_agree(drawn(kind(mistake)))
    with torch.no_grad():
        found = compare_steps(drawn(kind(mistake)), [{"ids": IDS}], TOLERANCE)
    assert found["error"] > TOLERANCE
    assert re.search(cause, found["cause"]), found
    assert found["place"] == "layers.0.attention"
    if code:
        lines = Path(cached_decoders.__file__).read_text().splitlines()
        assert code in lines[int(found["line"].rpartition(":")[2]) - 1]


class Wrapped(torch.nn.Module):
    """A net whose one part takes the cache."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, tokens):
        return self.net(tokens)


class Exchanging(Listed):
    """A net that exchanges samples when it is given one token, the first one too."""

    def forward(self, ids, past_key_values=None, use_cache=False):
        if ids.shape[1] == 1:
            ids = ids.flip(0)
        return super().forward(ids, past_key_values, use_cache)


def test_a_first_token_that_is_off_is_told_from_a_net_that_is_not_causal():
    with torch.no_grad():
        found = compare_steps(drawn(Exchanging()), [{"ids": IDS}], TOLERANCE)
    assert found["step"] == 1
    assert found["cause"] == "the step of position 1 depends on the tokens of other samples of the batch"


class Open(Kept):
    """A net whose tokens see later ones."""

    def __init__(self):
        super().__init__()
        for layer in self.layers:
            layer.attention.mask[:] = True


class Plain(torch.nn.Module):
    """A net with positions and a switch, and without a cache."""

    def __init__(self, net):
        super().__init__()
        self.layers, self.embed, self.head = net.layers, net.embed, net.head

    def forward(self, ids, use_cache=False, positions=None):
        return Listed.forward(self, ids)


def test_a_part_that_holds_all_weights_is_stepped_in_place_of_the_net():
    net = Wrapped(drawn(Listed("positions")))
    assert has_cache(net, {"tokens": IDS})
    with torch.no_grad():
        assert compare_steps(net, [{"tokens": IDS}], TOLERANCE)["place"] == "net.layers.0.attention"


def test_a_net_that_keeps_nothing_is_not_stepped():
    net = Plain(drawn(Listed()))
    with torch.no_grad():
        found = compare_steps(net, [{"ids": IDS}], TOLERANCE)
    assert found == {"how": "", "reason": ""}
    with torch.no_grad():
        assert compare_steps(drawn(Open()), [{"ids": IDS}], TOLERANCE) == {"how": "", "reason": ""}
    assert not has_cache(torch.nn.Sequential(torch.nn.Embedding(17, 4)), {"input": IDS})


def loaded(net):
    return netweave.load(drawn(net), input_shapes={"ids": (1, TOKENS)})


@pytest.mark.slow
def test_a_wrong_cache_makes_nets_different():
    right, wrong = loaded(Listed()), loaded(Listed("positions"))
    same = compare(right, loaded(Listed()))
    assert same.verdict is Verdict.IDENTICAL
    assert same.sentence == "identical: the output is identical"
    assert same.probes[-1] == "single steps through A's past_key_values and B's past_key_values"
    found = compare(right, wrong)
    assert found.verdict is Verdict.DIFFERENT
    assert found.findings[0].layer_b == "layers.0.attention"
    assert "The output is identical, but single steps through past_key_values of B differ" in found.sentence
    assert compare(wrong, right).findings[0].layer_a == "layers.0.attention"
    both = compare(wrong, wrong)
    assert both.verdict is Verdict.LATENT
    assert "in both nets, they give something else than one pass" in both.sentence


@pytest.mark.slow
def test_a_net_without_a_cache_is_said_to_have_none():
    right = loaded(Listed())
    right.trace, plain = None, right
    found = compare(loaded(Listed()), plain)
    assert found.verdict is Verdict.IDENTICAL
    assert "not exercised: single steps through a cache (B takes none; those of A were run)" in found.sentence

"""Masks, positions and segments that one of two nets takes as inputs, and the other does without."""

from __future__ import annotations

from functools import cache
from inspect import signature

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn  # noqa: E402

STEPS, WIDTH = 6, 8


class Encoder(torch.nn.Module):
    """Attention over embeddings of tokens, places and segments, and the mean of what it returns."""

    def __init__(self):
        super().__init__()
        self.word, self.place = torch.nn.Embedding(11, WIDTH), torch.nn.Embedding(STEPS, WIDTH)
        self.kind = torch.nn.Embedding(2, WIDTH)
        self.q, self.k, self.v = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def embedded(self, ids, positions, segments):
        return self.word(ids) + self.place(positions) + self.kind(segments)

    def attended(self, x, seen):
        scores = self.q(x) @ self.k(x).transpose(1, 2) * WIDTH**-0.5
        scores = scores if seen is None else scores.masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ self.v(x)

    def forward(self, ids):
        x = self.embedded(ids, torch.arange(ids.shape[1]), torch.zeros_like(ids))
        return self.attended(x, None).mean(1)


class Masked(Encoder):
    def forward(self, ids, padding_mask):
        x = self.embedded(ids, torch.arange(ids.shape[1]), torch.zeros_like(ids))
        x = self.attended(x, (padding_mask != 0)[:, None])
        weights = padding_mask[..., None].float()
        return (x * weights).sum(1) / weights.sum(1)


class Placed(Encoder):
    def forward(self, ids, position_ids, token_type_ids):
        return self.attended(self.embedded(ids, position_ids, token_type_ids), None).mean(1)


class Causal(Masked):
    def attended(self, x, seen):
        steps = torch.arange(x.shape[1])
        return super().attended(x, (steps[:, None] >= steps) & seen)


class Inverted(Masked):
    def attended(self, x, seen):
        return super().attended(x, ~seen)


class Filled(Encoder):
    """A mask that is added, made of zeros by ``masked_fill``."""

    def forward(self, ids, padding_mask):
        x = self.embedded(ids, torch.arange(ids.shape[1]), torch.zeros_like(ids))
        bias = torch.zeros_like(padding_mask, dtype=x.dtype).masked_fill(padding_mask == 0, -1e4)[:, None]
        scores = self.q(x) @ self.k(x).transpose(1, 2) * WIDTH**-0.5 + bias
        x = scores.softmax(-1) @ self.v(x)
        weights = padding_mask[..., None].float()
        return (x * weights).sum(1) / weights.sum(1)


class Full(Encoder):
    def forward(self, input_ids, attention_mask, token_type_ids):
        x = self.embedded(input_ids, torch.arange(input_ids.shape[1]), token_type_ids)
        return self.attended(x, (attention_mask != 0)[:, None])


class Hub(Full):
    def forward(self, padding_mask, segment_ids, token_ids):
        return super().forward(token_ids, padding_mask, segment_ids)


class Segmented(Encoder):
    def forward(self, ids, token_type_ids):
        x = self.embedded(ids, torch.arange(ids.shape[1]), token_type_ids)
        return self.attended(x, None).mean(1)


class Featured(Encoder):
    def forward(self, ids, features):
        return super().forward(ids) + features.mean(1)


@pytest.fixture(scope="module")
def nets():
    """Return nets of the same weights, by their class, each read when first asked for."""
    original = drawn(Encoder())

    @cache
    def read(form):
        names = list(signature(form.forward).parameters)[1:]
        sizes = {name: (1, STEPS, WIDTH) if name == "features" else (1, STEPS) for name in names}
        return netweave.load(copied(original, form()), input_shapes=sizes)

    return read


@pytest.mark.parametrize(
    ("form", "names", "values"),
    [
        (Masked, ["padding_mask"], "ones"),
        (Placed, ["position_ids", "token_type_ids"], "0, 1, 2, ..."),
    ],
)
@pytest.mark.parametrize("is_a", [False, True])
def test_what_one_net_takes_is_held(nets, form, names, values, is_a):
    pair = [nets(Encoder), nets(form)]
    comparison = compare(*(pair[::-1] if is_a else pair))
    assert comparison.verdict is Verdict.IDENTICAL
    assert not comparison.findings
    side, other = "AB" if is_a else "BA"
    assert f"the input {names[0]!r} of {side} (held at {values})" in comparison.sentence
    assert f"{other} has no input {names[0]!r}" in comparison.notes[0]


@pytest.mark.parametrize("is_a", [False, True])
def test_inputs_of_two_kinds_are_not_taken_for_one_another(nets, is_a):
    pair = [nets(Masked), nets(Segmented)]
    comparison = compare(*(pair[::-1] if is_a else pair))
    assert comparison.verdict is Verdict.IDENTICAL
    assert not comparison.findings


def test_a_difference_besides_is_found(nets):
    comparison = compare(nets(Encoder), nets(Causal))
    assert comparison.verdict is Verdict.DIFFERENT
    assert "masked_fill" in comparison.findings[0].cause


def test_a_mask_that_both_take_is_given(nets):
    comparison = compare(nets(Masked), nets(Masked))
    assert comparison.verdict is Verdict.IDENTICAL
    assert not any("held" in note for note in comparison.notes)


def test_what_must_be_given_is_named(nets):
    sentence = compare(nets(Encoder), nets(Featured)).sentence
    assert "A takes 1 input ('ids') and B 2 inputs ('ids', 'features'), which cannot be paired" in sentence


def test_a_mask_of_zeros_that_is_filled_is_one_that_is_chosen(nets):
    comparison = compare(nets(Masked), nets(Filled))
    assert comparison.equal
    assert not comparison.findings


def test_inputs_of_other_names_are_paired_by_what_they_are(nets):
    comparison = compare(nets(Full), nets(Hub))
    assert comparison.equal
    assert not comparison.findings
    assert {(each.a, each.b) for each in comparison.inputs} == {
        ("input_ids", "token_ids"), ("attention_mask", "padding_mask"), ("token_type_ids", "segment_ids"),
    }  # fmt: skip


def test_a_probe_gives_what_is_held_or_is_refused(nets):
    ids, mask = np.arange(2 * STEPS).reshape(2, STEPS) % 11, np.ones((2, STEPS), np.int64)
    pair = nets(Masked), nets(Encoder)
    assert compare(*pair, probe={"ids": ids, "padding_mask": mask}).equal
    mask[0, -1] = 0
    found = compare(*pair, probe={"ids": ids, "padding_mask": mask})
    assert found.verdict is Verdict.UNDECIDED
    assert "the probe gives 'padding_mask' other values than ones: B has no input" in found.sentence


def test_a_mask_that_is_inverted_is_named(nets):
    found = compare(nets(Masked), nets(Inverted))
    assert found.verdict is Verdict.DIFFERENT
    assert "B inverts a condition, A does not" in {finding.cause for finding in found.findings}

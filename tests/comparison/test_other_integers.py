"""Masks hold zeros and ones, positions count up; nets that differ on other integers are equal so far."""

from __future__ import annotations

import pytest

import netweave
from netweave.comparison import Verdict
from tests.comparison.onnx_text import read_text

MASKED = "g (float[N,8] x, int64[N,8] NAME) => (float[N,8] y) { BODY y = Mul(x, f) }"
IS_ONE = "one = Constant<value_int=1>() t = Equal(NAME, one) f = Cast<to=1>(t)"
IS_TRUE = "t = Cast<to=9>(NAME) f = Cast<to=1>(t)"
AS_NUMBER = "f = Cast<to=1>(NAME)"
COMPLEMENT = "one = Constant<value_float=1.0>() n = Cast<to=1>(NAME) f = Sub(one, n)"
IS_NOT = "t = Cast<to=9>(NAME) n = Not(t) f = Cast<to=1>(n)"


def nets_of(net: str, first: str, second: str, *, folder):
    return [
        read_text(net.replace("BODY", body), folder, name) for name, body in (("a", first), ("b", second))
    ]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("pad_mask", IS_ONE, IS_TRUE),
        ("pad_mask", IS_TRUE, AS_NUMBER),
        ("ids", COMPLEMENT, IS_NOT),  # called no mask: the complement makes it one
    ],
)
def test_masks_of_other_numbers_are_named_where_they_tell(tmp_path, name, first, second):
    net = MASKED.replace("NAME", name)
    bodies = (each.replace("NAME", name) for each in (first, second))
    nets = nets_of(net, *bodies, folder=tmp_path)
    usual, strict = netweave.compare(*nets), netweave.compare(*nets, strict=True)
    assert usual.verdict is Verdict.LATENT
    assert f"values of '{name}' other than 0 and 1 (the nets differ on them)" in usual.sentence
    assert strict.exit_status == 3


def test_masks_of_other_numbers_are_tried(tmp_path):
    net, body = (text.replace("NAME", "pad_mask") for text in (MASKED, IS_ONE))
    other = body.replace("pad_mask, one", "one, pad_mask")
    found = netweave.compare(*nets_of(net, body, other, folder=tmp_path))
    assert found.verdict is Verdict.IDENTICAL
    assert found.is_strictly_equal


def test_a_mask_that_only_one_net_takes_is_named(tmp_path):
    net = "g (int64[N,8] pad_mask) => (float[N,8] y) <float[2] t = {0, 1}> { BODY }"
    bodies = ("y = Gather(t, pad_mask)", "y = Cast<to=1>(pad_mask)")
    usual = netweave.compare(*nets_of(net, *bodies, folder=tmp_path))
    assert "values of 'pad_mask' other than 0 and 1 (B takes them, A does not)" in usual.sentence


PLACED = (
    "g (float[N,8] x, int64[N,8] position_ids) => (float[N,8] y) { BODY f = Cast<to=1>(p) y = Mul(x, f) }"
)
AS_THEY_ARE, NEVER_BELOW_ZERO = "p = Identity(position_ids)", "p = Abs(position_ids)"


def test_positions_that_do_not_count_up_are_named_where_they_tell(tmp_path):
    found = netweave.compare(*nets_of(PLACED, AS_THEY_ARE, NEVER_BELOW_ZERO, folder=tmp_path))
    assert found.verdict is Verdict.LATENT
    assert "values of 'position_ids' that do not count up from 0 (the nets differ on them)" in found.sentence
    assert netweave.compare(*nets_of(PLACED, AS_THEY_ARE, AS_THEY_ARE, folder=tmp_path)).is_strictly_equal


def test_a_mask_of_floats_against_one_of_integers_is_compared(tmp_path):
    integers = MASKED.replace("NAME", "pad_mask")
    numbers = integers.replace("int64[N,8]", "float[N,8]")
    a = read_text(numbers.replace("BODY", "f = Identity(pad_mask)"), tmp_path, "a")
    b = read_text(integers.replace("BODY", "f = Cast<to=1>(pad_mask)"), tmp_path, "b")
    assert netweave.compare(a, b).equal
    assert netweave.compare(b, a).equal

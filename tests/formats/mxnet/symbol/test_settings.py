"""Settings as MXNet writes them, in every spelling."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError
from netweave.files.unknown_names import UnknownLayer
from netweave.formats.mxnet.symbol.settings import Settings


def settings(**texts):
    return Settings(texts, place="net.json:1: layer 'x' (Y)")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "64", 64),
        ("integer", " -3 ", -3),
        ("integer", "64L", 64),
        ("count", "1", 1),
        ("number", "1e-05", 1e-5),
        ("number", "-inf", float("-inf")),
        ("flag", "True", True),
        ("flag", "0", False),
        ("flag", "false", False),
        ("integers", "(3, 3)", (3, 3)),
        ("integers", "[3,3]", (3, 3)),
        ("integers", "(3L, 3L)", (3, 3)),
        ("integers", "(3,)", (3,)),
        ("integers", "3", (3,)),
        ("integers", "()", ()),
        ("bounds", "(None, -1)", (None, -1)),
        ("numbers", "(0.5,1)", (0.5, 1.0)),
        ("dtype", "float16", "float16"),
        ("dtype", "12", "bfloat16"),
    ],
)
def test_texts_become_values(kind, text, value):
    assert getattr(settings(a=text), kind)("a") == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "3.0"),
        ("integer", ""),
        ("integer", "9223372036854775808"),
        ("integer", "9" * 5000),
        ("count", "0"),
        ("number", "x"),
        ("flag", "yes"),
        ("integers", "(3, x)"),
        ("integers", "(3"),
        ("bounds", "(none,)"),
        ("dtype", "13"),
        ("dtype", "float"),
    ],
)
def test_what_is_no_value_is_shown(kind, text):
    with pytest.raises(ReadError, match=r"net.json:1: layer 'x' \(Y\): 'a' is '.*, expected ") as caught:
        getattr(settings(a=text), kind)("a")
    assert len(str(caught.value)) < 200


def test_none_and_nothing_are_the_default():
    assert settings(a="None").integer("a", 7) == 7
    assert settings().integer("a", None) is None
    with pytest.raises(ReadError, match="'a' is missing, expected an integer"):
        settings().integer("a")


def test_one_number_per_axis():
    assert settings(a="()").per_axis("a", 2, 1) == (1, 1)
    assert settings(a="(3,2)").per_axis("a", 2, 1) == (3, 2)
    for text in ("3", "(3,0)", "(1,2,3)"):
        with pytest.raises(ReadError, match="expected 2 integers of at least 1"):
            settings(a=text).per_axis("a", 2, 1)


def test_a_word_that_is_not_known_is_refused():
    with pytest.raises(ReadError, match="'a' is 'z', expected one of 'x', 'y'"):
        settings(a="z").choice("a", ("x", "y"))


def test_what_nobody_asked_for_is_known():
    given = settings(a="1", b="2", c="3", workspace="4", __ctx_group__="g", weight_lr_mult="1")
    given.integer("a")
    given.ignore("c")
    assert [setting.name for setting in given.unknown(UnknownLayer("Y", "x"))] == ["b"]

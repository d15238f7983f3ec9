"""Unknown layer types and names of inputs are refused in one message."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.unknown_names import (
    UnknownLayer,
    UnknownSetting,
    check_input_names,
    refuse_unknown_layers,
    refuse_unknown_settings,
)


def test_every_type_is_named_once_with_its_first_layers():
    unknown = [UnknownLayer("Foo", f"a{i}", i + 1) for i in range(5)] + [UnknownLayer("Relu", "b")]
    with pytest.raises(UnsupportedError) as caught:
        refuse_unknown_layers(
            unknown,
            place="net.txt",
            noun="layer",
            known=["ReLU", "Pooling"],
            reasons={"Foo": "a layer of another branch"},
            how_to="add-a-caffe-layer",
        )
    assert str(caught.value) == (
        "net.txt: has 2 layer types that Netweave does not read: Foo ('a0' on line 1, 'a1' on line 2, 'a2' "
        "on line 3 and 2 more; a layer of another branch); Relu ('b'; did you mean 'ReLU'?); see "
        "docs/how-to/add-a-caffe-layer.md"
    )


def test_a_message_about_many_types_stays_short():
    with pytest.raises(UnsupportedError, match=r"and 80 more types$"):
        refuse_unknown_layers([UnknownLayer(f"T{i}", "x") for i in range(100)], place="net", noun="operator")


def test_nothing_unknown_is_no_error():
    refuse_unknown_layers([], place="net", noun="layer")
    check_input_names(["x"], ["x", "y"], place="net")


def test_a_name_that_is_no_input_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"^net: no input named 'z'; the inputs are 'x', 'y'$"):
        check_input_names(["x", "z"], ["x", "y"], place="net")


def test_unknown_settings_are_named_with_their_layers():
    conv = UnknownLayer("Convolution", "conv1", 7)
    unknown = [
        UnknownSetting("strid", "2", conv, known=["stride", "pad"]),
        UnknownSetting("foo", "x" * 100, UnknownLayer("Pooling", "pool1")),
    ]
    with pytest.raises(ReadError) as caught:
        refuse_unknown_settings(unknown, place="net.json")
    assert str(caught.value) == (
        "net.json: has settings that its layers do not know: strid='2' (Convolution 'conv1' on line 7; did "
        f"you mean 'stride'?); foo='{'x' * 39} (Pooling 'pool1')"
    )


def test_no_unknown_settings_are_fine():
    refuse_unknown_settings([], place="net.json")

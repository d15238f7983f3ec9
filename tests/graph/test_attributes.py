"""Attributes from Python values and back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from netweave.graph import attributes_of, make_attributes

TYPES = ir.AttributeType


@pytest.mark.parametrize(
    ("value", "kind", "back"),
    [
        (1, TYPES.INT, 1),
        (True, TYPES.INT, 1),
        (0.5, TYPES.FLOAT, 0.5),
        ("SAME", TYPES.STRING, "SAME"),
        ([1, 2], TYPES.INTS, (1, 2)),
        ((1, 0.5), TYPES.FLOATS, (1.0, 0.5)),
        ([], TYPES.INTS, ()),
        ([True, False], TYPES.INTS, (1, 0)),
        (["a", "b"], TYPES.STRINGS, ("a", "b")),
    ],
)
def test_values_come_back(value, kind, back):
    node = ir.Node("", "Op", [], attributes=make_attributes({"a": value, "left_out": None}))
    assert attributes_of(node) == {"a": back}
    assert node.attributes["a"].type == kind


def test_a_tensor_and_an_attribute_are_taken_as_they_are():
    tensor, attribute = ir.Tensor(np.zeros(3)), ir.AttrInt64("b", 2)
    made = make_attributes({"a": tensor, "b": attribute})
    assert (made[0].value, made[1]) == (tensor, attribute)


def test_what_no_attribute_can_be_is_refused():
    with pytest.raises(TypeError, match="Unsupported attribute type"):
        make_attributes({"a": [1, "b"]})

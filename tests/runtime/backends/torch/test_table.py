"""The table of lowerings against ONNX's schemas and Netweave's registry."""

from __future__ import annotations

import inspect

import onnx
import pytest

pytest.importorskip("torch")

from netweave.graph import OPSET, all_operators
from netweave.runtime.backends.torch import all_lowerings, find_lowering

STANDARD = [row for row in all_lowerings() if not row.domain]


def schema_of(row):
    return onnx.defs.get_schema(row.op_type, max(row.since, min(OPSET, newest_before_next(row))))


def newest_before_next(row):
    later = [other.since for other in STANDARD if other.op_type == row.op_type and other.since > row.since]
    return min(later, default=OPSET + 1) - 1


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in STANDARD])
def test_signature_is_the_schemas(row):
    schema = schema_of(row)
    assert set(schema.attributes) == set(row.attributes) | set(schema.attributes) & row.injected
    for name, default in row.attributes.items():
        attribute = schema.attributes[name]
        assert attribute.required == (default is inspect.Parameter.empty), name
        given = (
            onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None
        )
        if given is not None:
            given = given.decode() if isinstance(given, bytes) else given
            expected = (
                tuple(g.decode() if isinstance(g, bytes) else g for g in given)
                if isinstance(given, list)
                else given
            )
            assert default == pytest.approx(expected) or default == expected, name
    assert row.variadic or len(row.inputs) == schema.max_input


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in STANDARD])
def test_first_version_is_one_of_onnx(row):
    assert onnx.defs.get_schema(row.op_type, row.since).since_version == row.since


BY_THE_REGISTRY = {"CTCLoss", "CTCOutput", "MXNetCustom"}
"""What runs by its own forward and gradient (``registered``): torch's CTC has another rule for labels that do
not fit the steps, and ``netweave.mxnet`` registers the operators of its users under one name."""


@pytest.mark.parametrize("op_type", sorted(set(all_operators()) - BY_THE_REGISTRY))
def test_every_operator_of_the_registry_is_lowered(op_type):
    assert find_lowering("netweave", op_type, 1) is not None, f"write a torch lowering of netweave::{op_type}"


def test_newest_version_not_above_the_models_is_found():
    assert find_lowering("", "SpaceToDepth", 22).since == 1
    assert find_lowering("", "SpaceToDepth", 28).since == 28
    assert find_lowering("ai.onnx", "Resize", 22).since == 19
    assert find_lowering("", "Resize", 18) is None

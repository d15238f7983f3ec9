"""Operators that are known in a file: ONNX's own, Netweave's, and those of ONNX Runtime."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import onnx

from netweave.errors import UnsupportedError
from netweave.files.onnx.editing import all_nodes
from netweave.files.onnx.opset import ML_DOMAIN, label
from netweave.files.unknown import UnknownLayer, refuse_unknown_layers
from netweave.graph import DOMAIN, all_operators

if TYPE_CHECKING:
    import onnx_ir as ir

MAX_OPSET = onnx.defs.onnx_opset_version()


def check_operators(model: ir.Model, *, place: str) -> None:
    """Check that every operator is known in the version that the file names.

    Args:
        model: The model, without functions.
        place: The file, for messages.

    Raises:
        UnsupportedError: Some are not; all are named, with their first nodes.
    """
    version = model.opset_imports.get("", MAX_OPSET)
    if not 1 <= version <= MAX_OPSET:
        raise UnsupportedError(
            f"is written in opset {version}; 1 to {MAX_OPSET} are supported: update onnx, or export the net "
            "again",
            place=place,
        )
    unknown = []
    for node in all_nodes(model.graph):
        if not is_known_operator(node, model):
            own = model.opset_imports.get(node.domain, 1)
            unknown.append(UnknownLayer(label(node, own), node.name or ""))
    refuse_unknown_layers(
        unknown,
        place=place,
        noun="operator",
        advice="neither ONNX nor ONNX Runtime has them, and the file holds no functions of these names: "
        "export with standard operators",
    )


def is_known_operator(node: ir.Node, model: ir.Model) -> bool:
    """Return whether a node's operator is known in the version that the file names."""
    return _is_known(node.domain, node.op_type, model.opset_imports.get(node.domain, 1))


@cache
def _is_known(domain: str, op_type: str, version: int) -> bool:
    if domain == DOMAIN:
        return op_type in all_operators()
    if domain in {"", ML_DOMAIN}:
        try:
            onnx.defs.get_schema(op_type, version, domain)
        except onnx.defs.SchemaError:
            return False
        return True
    return (domain, op_type) in _runtime_operators()


@cache
def _runtime_operators() -> frozenset[tuple[str, str]]:
    """Return (domain, name) of the operators of ONNX Runtime; it is imported only when asked."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return frozenset((schema.domain, schema.name) for schema in get_all_operator_schema())

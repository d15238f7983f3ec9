"""ONNX's own node tests as graphs at the opset of Netweave: models, inputs and expected outputs."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.loader import load_node_model_tests

from netweave.graph import OPSET, Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True)
class NodeCase:
    """One of ONNX's tests with one set of arrays."""

    name: str
    graph: Graph
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    rtol: float
    atol: float

    @property
    def op_types(self) -> set[str]:
        return {node.op_type for node in self.graph.nodes}


@functools.cache
def load_node_cases() -> list[NodeCase]:
    """Return the tests whose inputs and outputs are arrays.

    ONNX computes the outputs when its tests are imported, which takes seconds: call this while a test runs,
    and not while tests are collected, which each worker does for all files.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_node_model_tests()
    cases = []
    for test in tests:
        for inputs, outputs in test.data_sets or ():
            if all(isinstance(array, np.ndarray) for array in (*inputs, *outputs)):
                cases.append(_case(test, inputs, outputs))
    return cases


def check_all(cases: Iterable[NodeCase], check: Callable[[NodeCase], None]) -> None:
    """Check each case, and raise what failed together, with the names of the cases."""
    failures = []
    for case in cases:
        try:
            check(case)
        except Exception as error:  # noqa: BLE001 (raised below)
            error.add_note(f"node test {case.name}")
            failures.append(error)
    if failures:
        raise ExceptionGroup("node tests failed", failures)


def _case(test, inputs, outputs) -> NodeCase:
    proto = onnx.ModelProto()
    proto.CopyFrom(test.model)
    for opset in proto.opset_import:
        if opset.domain == "" and all(_means_the_same(node, opset.version) for node in proto.graph.node):
            opset.version = OPSET
    names = [value.name for value in proto.graph.input], [value.name for value in proto.graph.output]
    return NodeCase(
        name=test.name.removeprefix("test_"),
        graph=Graph(model=ir.serde.deserialize_model(proto)),
        inputs=dict(zip(names[0], inputs, strict=True)),
        outputs=dict(zip(names[1], outputs, strict=True)),
        rtol=test.rtol,
        atol=test.atol,
    )


def _means_the_same(node: onnx.NodeProto, version: int) -> bool:
    """Whether a node of some version is valid, and means the same, at Netweave's."""
    if node.domain:
        return True
    try:
        own = onnx.defs.get_schema(node.op_type, version)
        ours = onnx.defs.get_schema(node.op_type, OPSET)
    except onnx.defs.SchemaError:
        return False
    if version <= OPSET:
        return own.since_version == ours.since_version
    added = {name for name in own.attributes if name not in ours.attributes}
    return not added & {attribute.name for attribute in node.attribute} and len(node.input) <= ours.max_input

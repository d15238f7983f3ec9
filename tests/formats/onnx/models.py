"""Small ONNX models for the tests, written with onnx alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from netweave.files import Source
from netweave.formats.onnx import reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.graph import Graph

FLOAT = TensorProto.FLOAT


def node(op_type: str, inputs: str, outputs: str, *, domain: str = "", name: str = "", **attributes: Any):
    """Return a node; inputs and outputs are names with spaces between, ``-`` for one left out."""
    read, made = ([name if name != "-" else "" for name in names.split()] for names in (inputs, outputs))
    return helper.make_node(op_type, read, made, name=name, domain=domain, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    arrays: Mapping[str, Any] | None = None,
    *,
    opset: int = 22,
    ir_version: int = 8,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    dtype: int = FLOAT,
) -> onnx.ModelProto:
    """Return a model; outputs get no shape, so that only inference can say it."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (arrays or {}).items()],
    )
    imports = [
        helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()
    ]
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    made.functions.extend(functions)
    return made


def load(proto: onnx.ModelProto, folder: Path, **wishes: Any) -> Graph:
    """Write a model to a file and read it."""
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return reader.read(Source(path, **wishes))


def run(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs that ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return seeded normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)

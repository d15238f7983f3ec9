"""From the bytes of an ONNX file to a clean model: checked, sorted, without functions and constants."""

from __future__ import annotations

import logging
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
)

from netweave.errors import ReadError, UnsupportedError
from netweave.files.onnx.editing import Names, all_graphs, all_nodes, all_values
from netweave.files.onnx.large_arrays import OWN_FILE, read_own, without_large_arrays
from netweave.files.onnx.later import add_functions_of_later_operators
from netweave.files.onnx.symbols import plain_symbols
from netweave.files.onnx.tensors import check_tensors
from netweave.files.onnx.texts import check_texts
from netweave.files.source import read_bytes
from netweave.graph import DOMAIN, is_registered
from netweave.graph.naming import take_name

if TYPE_CHECKING:
    from pathlib import Path

MAX_PROTO_BYTES = 2**31 - 1
"""Protobuf's limit on one message."""

MAX_NODES = 1_000_000
"""Nets of more nodes are refused; functions that call functions can describe any number in a few bytes."""

_FOREIGN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What onnx_ir raises over graphs that are not well-formed."""

_PLAIN = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64})
"""Element types whose values lie in a message as in an array."""

logging.getLogger("onnx_ir").addHandler(logging.NullHandler())  # what it warns of is raised here


def parse(path: Path) -> onnx.ModelProto:
    """Return the message in a file, its tensors checked.

    Raises:
        ReadError: The file cannot be read or parsed, or tensors and their bytes do not fit.
        UnsupportedError: It holds something that is not read.
    """
    place = str(path)
    content = without_large_arrays(path) or read_bytes(path)
    if len(content) > MAX_PROTO_BYTES:
        raise ReadError(
            f"has {len(content):,} bytes, but an ONNX file is limited to 2 GB; store the weights as external "
            "data",
            place=place,
        )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, RecursionError) as error:
        raise ReadError(
            "is not a complete ONNX model (its protobuf cannot be decoded); was it copied or downloaded "
            "whole?",
            place=place,
        ) from error
    check_texts(proto, place=place)
    check_tensors(proto, folder=path.parent, place=place)
    if len(proto.graph.output) == 0:
        raise ReadError("holds a graph without outputs, expected at least one", place=place)
    return proto


def to_model(proto: onnx.ModelProto, path: Path) -> ir.Model:
    """Return the model of a message: its nodes sorted and named, its constants initializers.

    Functions are still there, see ``inline``.

    Raises:
        ReadError: The graph is not well-formed: names are missing or double, or nodes run in a circle.
    """
    place = str(path)
    try:
        model = ir.from_proto(proto)
    except _FOREIGN as error:
        raise ReadError(f"is not a well-formed ONNX graph: {_root(error)}", place=place) from error
    _take_arrays(model.graph, path)
    folder = str(path.parent.resolve())
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        ir.external_data.set_base_dir(graph, folder)
    if "ai.onnx" in model.opset_imports:
        model.opset_imports.setdefault("", model.opset_imports["ai.onnx"])
    if model.ir_version < 3:
        model.opset_imports.setdefault("", 1)
    for node in all_nodes(model.graph):
        if node.domain == "ai.onnx":
            node.domain = ""
    _name(model.graph)
    _check_values(model.graph, place)
    _sort(model.graph, place)
    plain_symbols(model.graph)
    lift_constants(model, place)
    RemoveInitializersFromInputsPass()(model)
    return model


def _take_arrays(graph: ir.Graph, path: Path) -> None:
    """Make arrays of the initializers, which are parsed anew whenever somebody looks at them in a message."""
    for inner in all_graphs(graph):
        for value in inner.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.location == OWN_FILE:
                value.const_value = read_own(tensor, path)
            elif isinstance(tensor, ir.TensorProtoTensor) and tensor.dtype in _PLAIN:
                value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)


def inline(model: ir.Model, *, place: str) -> None:
    """Put the bodies of the model's own functions and of later operators in the place of their calls.

    Netweave's operators stay calls: the functions are there for other runtimes.

    Raises:
        ReadError: The functions call one another in a circle, or do not fit their calls.
        UnsupportedError: They describe more than ``MAX_NODES`` nodes.
    """
    _forget_ours(model)
    add_functions_of_later_operators(model)
    if not model.functions:
        return
    _check_size(model, place)
    try:
        InlinePass()(model)
    except _FOREIGN as error:
        raise ReadError(f"its functions cannot be inlined: {_root(error)}", place=place) from error
    model.functions.clear()
    lift_constants(model, place)


def _forget_ours(model: ir.Model) -> None:
    """Drop the functions that say what Netweave's operators do."""
    ours = {key for key in model.functions if key[0] == DOMAIN and is_registered(key[1])}
    for key in ours:
        del model.functions[key]
    for node in all_nodes(model.graph):
        if node.op_identifier() in ours:
            node.overload = ""


def lift_constants(model: ir.Model, place: str) -> None:
    """Make initializers of Constant nodes."""
    try:
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    except _FOREIGN as error:
        raise ReadError(f"contains a Constant without a valid value: {_root(error)}", place=place) from error


def _root(error: BaseException) -> str:
    """Return the first cause's message, on one line and not too long."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:300] + "..."


def _check_values(graph: ir.Graph, place: str) -> None:
    """Raise ``ReadError`` if a node or an output reads a value that nothing makes."""
    graphs = list(all_graphs(graph))
    made = {id(value) for inner in graphs for value in all_values(inner)}
    for inner in graphs:
        for value in inner.outputs:
            if id(value) not in made:
                raise ReadError(
                    f"output {value.name!r} of the graph has no node that computes it", place=place
                )
        for node in inner:
            for read in node.inputs:
                if read is not None and id(read) not in made:
                    raise ReadError(
                        f"{node.op_type} {node.name!r} reads {read.name!r}, which is neither computed by a "
                        "node nor an input or initializer",
                        place=place,
                    )
    for value in graph.inputs:
        if not isinstance(value.type, ir.TensorType):
            raise UnsupportedError(
                f"input {value.name!r} is not a tensor; sequences and maps are not supported", place=place
            )


def _sort(graph: ir.Graph, place: str) -> None:
    try:
        graph.sort()
    except ValueError as error:
        raise ReadError(f"its nodes form a cycle: {_circle(graph)}", place=place) from error


def _circle(graph: ir.Graph) -> str:
    before = {node: [n for n in node.predecessors() if n.graph is node.graph] for node in graph}
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        names = [repr(node.name or node.op_type) for node in error.args[1]]
        return " -> ".join(names if len(names) < 10 else [*names[:9], "..."])
    return "through the body of a node"


def _name(graph: ir.Graph) -> None:
    """Give every node a name of its own: its own, that of its first output, or its operator's."""
    taken: set[str] = set()
    for node in all_nodes(graph):
        first = next((value.name for value in node.outputs if value.name), None)
        node.name = take_name(node.name or first or node.op_type, taken, separator="#", first=1)


def rename_twins(model: ir.Model) -> None:
    """Make the names of all values unique: a value of a body may have the name of one outside."""
    bodies = list(all_graphs(model.graph))[1:]
    if not bodies:
        return
    names = Names(model.graph)
    seen = {value.name for value in all_values(model.graph)}
    for body in bodies:
        for value in all_values(body):
            if value.name and value.name in seen:
                value.name = names.value(value.name)
            seen.add(value.name)


def _check_size(model: ir.Model, place: str) -> None:
    """Raise ``UnsupportedError`` if the functions would make more than ``MAX_NODES`` nodes."""
    calls = {
        key: [node.op_identifier() for node in function.all_nodes()]
        for key, function in model.functions.items()
    }
    before = {key: [call for call in inner if call in calls] for key, inner in calls.items()}
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError as error:
        circle = " -> ".join(f"{domain}::{name}" for domain, name, _ in error.args[1][:10])
        raise ReadError(f"its functions call each other in a cycle: {circle}", place=place) from error
    sizes: dict[ir.OperatorIdentifier, int] = {}
    for key in order:
        sizes[key] = sum(sizes.get(call, 1) for call in calls[key])
    total = sum(sizes.get(node.op_identifier(), 1) for node in all_nodes(model.graph))
    if total > MAX_NODES:
        raise UnsupportedError(
            f"its functions describe {total:,} nodes; at most {MAX_NODES:,} are read", place=place
        )

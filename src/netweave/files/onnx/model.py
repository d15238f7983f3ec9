"""ONNX models: reading and writing."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
)

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.onnx import metadata
from netweave.files.onnx.batch import Batch, BatchBoundError, keep_batch, open_batch, plain_symbols
from netweave.files.onnx.editing import Names, all_graphs, all_nodes, all_values
from netweave.files.onnx.tensors import (
    OWN_FILE,
    check_tensors,
    check_texts,
    leave_out_large_arrays,
    read_own,
    with_large_arrays,
    without_large_arrays,
)
from netweave.files.onnx.upgrades import (
    add_functions_of_later_operators,
    check_operators,
    is_known_operator,
    modernise,
)
from netweave.files.partial_reading import left_out_note, split_readable
from netweave.files.source import read_bytes
from netweave.files.unknown_names import check_input_names
from netweave.graph import BATCH, DOMAIN, Graph, LayerTable, is_registered, known_shape
from netweave.graph.graph import has_subgraphs, subgraphs
from netweave.graph.naming import take_name
from netweave.graph.parameters import LAYOUT_PROP, PARAMETER_PROP

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
    if _is_sorted(graph):  # as most files are: to see that takes a fifth of sorting
        return
    try:
        graph.sort()
    except ValueError as error:
        raise ReadError(f"its nodes form a cycle: {_circle(graph)}", place=place) from error


def _is_sorted(graph: ir.Graph) -> bool:
    """Return whether each node stands behind those that it reads, and none has a body, which may read any."""
    before: set[ir.Node] = set()
    for node in graph:
        makers = (value.producer() for value in node.inputs if value is not None)
        if has_subgraphs(node) or any(maker is not None and maker not in before for maker in makers):
            return False
        before.add(node)
    return True


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
        for value in list(all_values(body)):  # a new name is a new key
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


# The field is the last of the message: a number that ONNX does not use, and the SHA-256 of all bytes before
# it. A program that edits the model may keep the field, so a wrong checksum is a note and not an error.

SEAL_FIELD = 20_260
"""Far beyond the numbers of ``ModelProto``, and below those that protobuf reserves."""

_KEY = b"\xa2\xf2\x09\x20"
"""Field ``SEAL_FIELD``, of 32 bytes."""

_BYTES = len(_KEY) + 32

_PART_BYTES = 1 << 20


def write_sealed(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a model, given in parts, with the checksum at its end."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.write(_KEY + digest.digest())


def is_as_sealed(path: Path) -> bool:
    """Return whether a model is as Netweave wrote it; one without a checksum is."""
    with path.open("rb") as file:
        num_bytes = file.seek(0, os.SEEK_END) - _BYTES
        if num_bytes < 0:
            return True
        file.seek(num_bytes)
        seal = file.read(_BYTES)
        if not seal.startswith(_KEY):
            return True
        file.seek(0)
        digest = hashlib.sha256()
        while num_bytes and (part := file.read(min(num_bytes, _PART_BYTES))):
            digest.update(part)
            num_bytes -= len(part)
        return digest.digest() == seal[len(_KEY) :]


def remove_unreadable(model: ir.Model, *, place: str) -> tuple[str, ...]:
    """Remove the nodes with unknown operators and all that need them, and return notes on them.

    What they read becomes an output, beside those outputs of the net that are left.

    Args:
        model: The model, sorted and without functions; it is changed.
        place: The file, for messages.

    Raises:
        UnsupportedError: Nothing is left.
    """
    graph = model.graph
    readable, rest = split_readable(
        graph,
        is_unknown=lambda node: not _is_known(node, model),
        reads=_reads,
        makes=lambda node: node.outputs,
    )
    if not rest:
        return ()
    if not readable:
        raise UnsupportedError(
            "has no node that can be read without an unknown operator before it", place=place
        )
    kept = set(readable)
    gone = {value for node in rest for value in node.outputs}
    ends = [value for value in graph.outputs if value not in gone]
    ends += [value for node in rest for value in _reads(node) if value.producer() in kept]
    graph.outputs[:] = list(dict.fromkeys(ends))
    graph.remove(rest, safe=True)
    return (f"{place}: {left_out_note([node.name or node.op_type for node in rest], noun='node')}",)


def _is_known(node: ir.Node, model: ir.Model) -> bool:
    inner = (each for body in subgraphs(node) for each in body)
    return is_known_operator(node, model) and all(_is_known(each, model) for each in inner)


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what a node and the bodies in it read."""
    yield from (value for value in node.inputs if value is not None)
    for body in subgraphs(node):
        for each in body:
            yield from _reads(each)


@dataclass(frozen=True, slots=True)
class Rows:
    """Information that a format gives about a model before its functions are inlined.

    Attributes:
        layers: The layer table; the nodes name their layers.
        batch_is_named: The batch already has its symbol, as in files that Netweave wrote.
    """

    layers: LayerTable
    batch_is_named: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A model as it was read.

    Attributes:
        model: Opset ``OPSET``, shapes inferred, the batch free where the net allows it.
        layers: The layer table.
        declared: Input shapes as the message declares them, by name.
        notes: What a user should know about the reading.
    """

    model: ir.Model
    layers: LayerTable
    declared: dict[str, tuple[int | None, ...]]
    notes: tuple[str, ...] = ()


def read_model(
    proto: onnx.ModelProto,
    path: Path,
    rows: Callable[[ir.Model], Rows],
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    partial: bool = False,
) -> Read:
    """Return the model of a message in opset ``OPSET``, without functions.

    Args:
        proto: The message, as ``parse`` returns it.
        path: Its file, for messages and for the arrays beside it.
        rows: Makes the layer table of the sorted model; called again if the batch cannot be freed.
        input_shapes: New sizes of inputs, by name.
        partial: Leave out unknown operators and what needs them.

    Raises:
        SourceError: The model holds something unknown, or does not fit together.
        UsageError: Input sizes are given for something that is no input.
    """
    once = functools.partial(_read, proto, path, rows, input_shapes or {}, partial=partial)
    try:
        return once(free_batch=True)
    except BatchBoundError as error:
        read = once(free_batch=False)
        note = f"{path}: the batch size stays as declared, since {error}"
        return Read(read.model, read.layers, read.declared, (*read.notes, note))


def _read(
    proto: onnx.ModelProto,
    path: Path,
    rows: Callable[[ir.Model], Rows],
    input_shapes: Mapping[str, tuple[int, ...]],
    *,
    free_batch: bool,
    partial: bool,
) -> Read:
    place = str(path)
    model = to_model(proto, path)
    names = rows(model)
    inline(model, place=place)
    rename_twins(model)
    notes = remove_unreadable(model, place=place) if partial else ()
    check_operators(model, place=place)
    declared = _declared(model)
    if names.batch_is_named:
        batch = Batch()
    else:
        batch = (open_batch if free_batch else keep_batch)(model.graph.inputs)
    _resize_inputs(model, input_shapes)
    modernise(model, batch, place=place)
    batch.check_outputs(model.graph.outputs)
    return Read(model, names.layers, declared, notes)


def _declared(model: ir.Model) -> dict[str, tuple[int | None, ...]]:
    shapes = {value.name: known_shape(value) for value in model.graph.inputs}
    return {name: shape for name, shape in shapes.items() if name and shape is not None}


def _resize_inputs(model: ir.Model, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Give inputs the sizes that the caller wants; a free batch stays free."""
    inputs = {value.name: value for value in model.graph.inputs}
    check_input_names(wanted, map(str, inputs), place=model.graph.name or "the model")
    for name, sizes in wanted.items():
        old = inputs[name].shape
        if old is not None and len(old) != len(sizes):
            raise UsageError(f"input {name!r} has {len(old)} axes, but {len(sizes)} sizes are given")
        first = [BATCH] if old is not None and len(old) and old[0] == BATCH else list(sizes[:1])
        inputs[name].shape = ir.Shape([*first, *sizes[1:]])


MAX_INSIDE_BYTES = 1_800_000_000
"""Weights beyond this go to a file beside the net: protobuf ends at 2 GB, and needs room for the nodes."""

MIN_OUTSIDE_BYTES = 1024
"""Smaller arrays always stay in the net."""

_INFERRED = "pkg.onnx_shape_inference."


def save(graph: Graph, path: Path) -> None:
    """Write a model, with the tables of the graph; large weights go to ``<name>.data`` beside it.

    Raises:
        OSError: It cannot be written.
    """
    _save(_with_metadata(graph), path)


def read_saved(path: Path, *, place: str, files: Sequence[str]) -> Graph:
    """Read a graph that ``save`` wrote, in another process that ran code, say.

    Args:
        path: The file.
        place: The file that it was made from, for messages.
        files: The files of the net.

    Raises:
        ReadError: ``save`` did not write it.
    """
    saved: metadata.Saved | None = None

    def rows(model: ir.Model) -> Rows:
        nonlocal saved
        saved = metadata.load(model, place=place)
        if saved is None:
            raise ReadError("the process that read it wrote no tables", place=place)
        return Rows(saved.layers, batch_is_named=True)

    content = read_model(parse(path), path, rows, input_shapes={})
    assert saved is not None
    saved.tag(content.model, place=place)
    return replace(saved.graph(content.model), files=tuple(files))


def _with_metadata(graph: Graph) -> ir.Model:
    """Return a copy with the tables as metadata, without what belongs to the running program only."""
    model = graph.model.clone()
    model.metadata_props.update(metadata.dump(graph))
    for inner in model.graphs():
        for value in (*inner.inputs, *inner.initializers.values(), *(v for n in inner for v in n.outputs)):
            for key in list(value.metadata_props):
                if key.startswith(_INFERRED) or key in {PARAMETER_PROP, LAYOUT_PROP}:
                    del value.metadata_props[key]
    return model


def _save(model: ir.Model, path: Path) -> None:
    num_bytes = sum(
        value.const_value.nbytes
        for graph in model.graphs()
        for value in graph.initializers.values()
        if value.const_value is not None
    )
    if num_bytes > MAX_INSIDE_BYTES:
        ir.save(model, path, external_data=f"{path.name}.data", size_threshold_bytes=MIN_OUTSIDE_BYTES)
    else:
        large = leave_out_large_arrays(model)
        slim = _inside(model).SerializeToString()
        write_sealed(path, with_large_arrays(slim, large))


def _inside(model: ir.Model) -> onnx.ModelProto:
    """Return a model as a message that holds what other files hold, but for the arrays that are left out."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.location != OWN_FILE:
                (value.const_value,) = ir.external_data.convert_tensors_from_external([tensor])
    return ir.to_proto(model)

"""A graph of TensorFlow as nodes of ours: the main graph and its functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError
from netweave.files.protobuf import Message
from netweave.formats.tensorflow.attributes import attribute, num_filled
from netweave.formats.tensorflow.schema import BYTES
from netweave.graph.budget import MAX_FILLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_NODES = 500_000
"""A graph with more nodes is refused."""

OUTPUTS = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2"), ("y", "batch_mean", "batch_variance")),
    "FusedBatchNormV3": ("y", "batch_mean", "batch_variance"),
    "TopKV2": ("values", "indices"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "TensorListConcatV2": ("tensor", "lengths"),
    "BlockLSTM": ("i", "cs", "f", "o", "ci", "co", "h"),
    "BlockLSTMV2": ("i", "cs", "f", "o", "ci", "co", "h"),
    "LSTMBlockCell": ("i", "cs", "f", "o", "ci", "co", "h"),
    "GRUBlockCell": ("r", "u", "c", "h"),
    "TensorArrayV3": ("handle", "flow"),
    "TensorArrayConcatV3": ("value", "lengths"),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), ("output", "output_h", "output_c")),
}
"""Names of the outputs of operators with several, by which the nodes of a function call them."""

MIN_INPUTS = {
    **dict.fromkeys(("Neg", "Rsqrt", "Floor", "Identity", "Cast"), 1),
    **dict.fromkeys(("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum"), 2),
    **dict.fromkeys(("GreaterEqual", "Greater", "Less", "BiasAdd", "Conv2D", "DepthwiseConv2dNative"), 2),
    **dict.fromkeys(("SpaceToBatchND", "BatchToSpaceND"), 3),
}
"""Inputs of the operators that are looked for in patterns of several nodes, before a rule asks for them."""

Ref = tuple[str, int]
"""A node's name and which of its outputs."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        name: Its name.
        op: Its operator.
        inputs: What it reads.
        attributes: Its attributes as Python values.
        line: Where it stands in a text, from 1.
    """

    name: str
    op: str
    inputs: tuple[Ref, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None


@dataclass(slots=True)
class Body:
    """The nodes of the main graph, or of one function.

    Attributes:
        name: Name of the function; empty for the main graph.
        nodes: Nodes by name.
        arguments: Names of a function's arguments, in order.
        results: What a function returns, in order.
    """

    name: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    results: tuple[Ref, ...] = ()

    def readers(self) -> dict[str, list[Node]]:
        """Return who reads a node, by its name."""
        readers: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for name, _ in node.inputs:
                readers.setdefault(name, []).append(node)
        return readers


@dataclass(slots=True)
class Program:
    """A main graph and the functions that it may call.

    Attributes:
        main: The main graph.
        functions: Functions by name.
        file: Name of the file, for messages.
    """

    main: Body
    functions: dict[str, Body]
    file: str

    def place(self, node: Node) -> str:
        """Return where a node stands, for a message."""
        at = f"{self.file}:{node.line}" if node.line else self.file
        return f"{at}: node {node.name!r} ({node.op})"


def program(graph: Message, *, file: str) -> Program:
    """Return the nodes of a GraphDef.

    Args:
        graph: The message, from text or with its nodes as bytes.
        file: Name of the file, for messages.

    Raises:
        ReadError: It is damaged, or holds a node twice.
    """
    room = _Room(file)
    main = Body(nodes=_nodes(graph["node"], file, room, in_function=False))
    functions = {}
    for item in graph["library"]["function"]:
        body = _function(_opened(item, "FunctionDef", file), file, room)
        functions[body.name] = body
    return Program(main, functions, file)


def _opened(item: Message | bytes, kind: str, file: str) -> Message:
    return item if isinstance(item, Message) else BYTES.decode(kind, item, place=file)


@dataclass(slots=True)
class _Room:
    """Limit on the values that constants of a file may repeat: each takes a few bytes, together gigabytes."""

    file: str
    left: int = MAX_FILLED

    def take(self, node: Message) -> None:
        self.left -= sum(num_filled(item["value"]) for item in node["attr"])
        if self.left < 0:
            raise ReadError(
                f"has constants with more than {MAX_FILLED:,} repeated values, the last of them "
                f"in node {node['name']!r}",
                place=self.file,
            )


def _nodes(items: Iterable[Message | bytes], file: str, room: _Room, *, in_function: bool) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for item in items:
        message = _opened(item, "NodeDef", file)
        room.take(message)
        node = _node(message, file, in_function=in_function)
        if node.name in nodes:
            raise ReadError(f"contains two nodes named {node.name!r}", place=file)
        nodes[node.name] = node
        if len(nodes) > MAX_NODES:
            raise ReadError(f"contains more than {MAX_NODES:,} nodes", place=file)
    return nodes


def _node(message: Message, file: str, *, in_function: bool) -> Node:
    name, op, line = message["name"], message["op"], message.line
    place = f"{file}:{line}" if line else file
    if not name or not op:
        raise ReadError(f"contains a node without a {'name' if op else 'type'}", place=place)
    where = f"{place}: node {name!r} ({op})"
    inputs = tuple(_ref(text, in_function) for text in message["input"] if not text.startswith("^"))
    if len(inputs) < MIN_INPUTS.get(op, 0):
        raise ReadError(f"has {len(inputs)} inputs, expected at least {MIN_INPUTS[op]}", place=where)
    attributes = {item["key"]: attribute(item["value"], place=where) for item in message["attr"]}
    return Node(name, op, inputs, attributes, line)


def _ref(text: str, in_function: bool) -> Ref:
    """Return what an input names: ``node``, ``node:1``, and in functions ``node:output:1``.

    An output's name becomes its number later, when the operator of the node is known.
    """
    name, _, rest = text.partition(":")
    if in_function and rest and not rest.isdecimal():
        return (
            text.rpartition(":")[0],
            int(number) if (number := text.rpartition(":")[2]).isdecimal() else 0,
        )
    return (name, int(rest) if rest.isdecimal() else 0)


def _function(message: Message, file: str, room: _Room) -> Body:
    signature = message["signature"]
    arguments = tuple(item["name"] for item in signature["input_arg"])
    named = _nodes(message["node_def"], file, room, in_function=True)
    nodes = {
        key: replace(node, inputs=tuple(_numbered(ref, named) for ref in node.inputs))
        for key, node in named.items()
    }
    returned = {item["key"]: item["value"] for item in message["ret"]}
    results = []
    for item in signature["output_arg"]:
        if item["name"] not in returned:
            raise ReadError(
                f"function {signature['name']!r} does not define its output {item['name']!r}", place=file
            )
        results.append(_numbered(_ref(returned[item["name"]], True), named))
    return Body(signature["name"], nodes, arguments, tuple(results))


def _numbered(ref: Ref, nodes: Mapping[str, Node]) -> Ref:
    """Make a number of an output's name."""
    name, output, number = *ref[0].partition(":")[::2], ref[1]
    if not output or name not in nodes:
        return (name, number)
    names = OUTPUTS.get(nodes[name].op, ())
    return (name, names.index(output) if output in names else number)

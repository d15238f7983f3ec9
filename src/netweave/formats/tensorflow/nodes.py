"""Nodes of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError
from netweave.files.protobuf import Message
from netweave.formats.lowering import RuleTable
from netweave.formats.lowering.channels_last import ChannelsLastLayer, Stored, Tensor
from netweave.formats.tensorflow.attributes import BYTES, attribute, num_filled
from netweave.formats.tensorflow.operands import Item, Open, Sizes, numbers_of
from netweave.graph.costs import MAX_FILLED, MAX_LISTED
from netweave.graph.parameters import apply_layout

if TYPE_CHECKING:
    from netweave.formats.tensorflow.interpreter import Interpreter


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


Padding = str | list[int]

MAX_PIECES = 4_000
"""Nodes of their own that one node becomes at most: the steps of a loop, the tensors of a list."""


PADDINGS = ("SAME", "VALID", "EXPLICIT")


class TensorFlowOperation(ChannelsLastLayer):
    """One node of the net while it is lowered.

    Args:
        node: The node.
        inputs: What it reads.
        interpreter: Who reads; calls of functions go back to it.
        place: Where the node stands, for messages.
    """

    def __init__(self, node: Node, inputs: Sequence[Item], interpreter: Interpreter, place: str) -> None:
        super().__init__(interpreter.net, node.attributes, place=place)
        self.node = node
        self.op = node.op
        self.inputs = inputs
        self.interpreter = interpreter

    @property
    def x(self) -> Tensor | Stored:
        """The first input."""
        return self.operand()

    # Attributes.

    attribute = ChannelsLastLayer.setting
    """As TensorFlow calls its settings."""

    def string(self, name: str, default: str) -> str:
        """Return an attribute that is a string."""
        value = self.attribute(name, default)
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

    def is_last(self) -> bool:
        """Return whether the node has the channels on the last axis."""
        return self.string("data_format", "NHWC").upper() in {"NHWC", "NDHWC", "NWC"}

    @property
    def channel_axis(self) -> int:
        """The axis of the channels."""
        return -1 if self.is_last() else 1

    def spatial(self, name: str, *, last: bool, of: int = 0) -> list[int]:
        """Return an attribute with a number for each axis, without batch and channels; 1 where it is missing.

        Args:
            name: The attribute.
            last: Whether the channels are on the last axis.
            of: Which input the axes are of.
        """
        values = self.integer_list(name, ())
        if not values:
            return [1] * (self.rank(self.operand(of)) - 2)
        if values[0] != 1 or values[-1 if last else 1] != 1:
            raise self.unsupported(f"{name}={values}: a step over the batch or the channels is not supported")
        return values[1:-1] if last else values[2:]

    def padding(self, *, last: bool) -> Padding:
        """Return ``SAME``, ``VALID`` or the pads: all begins, then all ends."""
        padding = self.string("padding", "VALID")
        if padding not in PADDINGS:
            raise self.setting_error("padding", f"one of {', '.join(PADDINGS)}")
        if padding != "EXPLICIT":
            return padding
        pads = self.integer_list("explicit_paddings", ())
        spatial = slice(1, -1) if last else slice(2, None)
        return [*pads[0::2][spatial], *pads[1::2][spatial]]

    # Inputs.

    def item(self, index: int) -> Item:
        """Return an input as it is.

        Raises:
            ReadError: There is no such input.
        """
        if not -len(self.inputs) <= index < len(self.inputs):
            raise self.read_error(f"has {len(self.inputs)} inputs, but number {index + 1} is needed")
        return self.inputs[index]

    def operand(self, index: int = 0) -> Tensor | Stored:
        """Return an input that is a tensor or a stored array; numbers become a tensor."""
        return self._operand(self.item(index))

    def operands(self, start: int = 0, stop: int | None = None) -> list[Tensor | Stored]:
        """Return inputs that are tensors or stored arrays."""
        return [self._operand(item) for item in self.inputs[start:stop]]

    def _operand(self, item: Item) -> Tensor | Stored:
        if isinstance(item, (Tensor, Stored)):
            return item
        if isinstance(item, Sizes):
            return Tensor(self.written(item))
        raise self.unsupported(f"reads {_kind_of(item)}, expected a tensor")

    def constant_input(self, index: int, what: str) -> np.ndarray:
        """Return an input that is a constant of the net, all of it known.

        Args:
            index: Which input.
            what: What it is, for a message.

        Raises:
            UnsupportedError: It is computed while the net runs, or depends on an open size.
        """
        item = self.item(index)
        if not isinstance(item, Stored) or item.array is None:
            why = (
                f"it depends on sizes that are not known; {self.give_sizes()}"
                if isinstance(item, Sizes)
                else "it is computed while the net runs, which is not supported"
            )
            raise self.unsupported(f"{what} must be known: {why}")
        return apply_layout(item.array, item.steps)

    def integers_input(self, index: int, what: str) -> list[int]:
        """Return an input that is a constant list of integers, or one.

        Raises:
            UnsupportedError: It is not known, or longer than any list of axes, sizes or settings.
        """
        return [int(number) for number in self._listed(self.constant_input(index, what), what)]

    def integer_input(self, index: int, what: str) -> int:
        """Return an input that is a constant integer.

        Raises:
            UnsupportedError: It is not known, or is no number at all.
        """
        numbers = self.integers_input(index, what)
        if not numbers:
            raise self.unsupported(f"{what} is an empty list, expected a number")
        return numbers[0]

    def sizes_input(self, index: int, what: str) -> list[int | None]:
        """Return an input that is a list of integers, None for those that are open."""
        numbers = numbers_of(self.item(index))
        if numbers is None:
            return list(self.integers_input(index, what))
        return [None if isinstance(number, Open) else int(number) for number in self._listed(numbers, what)]

    def _listed(self, numbers: np.ndarray, what: str) -> np.ndarray:
        if numbers.size > MAX_LISTED:
            raise self.unsupported(
                f"{what} has {numbers.size:,} numbers, at most {MAX_LISTED:,} are supported"
            )
        return numbers.reshape(-1)

    def few(self, count: int) -> int:
        """Return a number of tensors that are written one by one.

        Raises:
            UnsupportedError: There are too many of them.
        """
        if not 0 <= count <= MAX_PIECES:
            raise self.unsupported(f"has {count:,} tensors as outputs, at most {MAX_PIECES:,} are supported")
        self.interpreter.spend(count, self.place)
        return count

    def written(self, sizes: Sizes) -> ir.Value:
        """Return numbers as a value that is computed while the net runs.

        Raises:
            UnsupportedError: One of them follows from an open size by a formula.
        """
        parts = []
        for number in self._listed(sizes.numbers, "a list of sizes"):
            if not isinstance(number, Open):
                parts.append(self.integers([int(number)]))
            elif number.value is not None:
                ends = {"start": number.axis, "end": number.axis + 1}
                parts.append(self.add("Shape", [number.value], ends))
            else:
                raise self.unsupported(f"reads a number that depends on an unknown size; {self.give_sizes()}")
        joined = self.add("Concat", parts, {"axis": 0}) if len(parts) > 1 else parts[0]
        return joined if sizes.numbers.ndim == 1 else self.reshape(joined, sizes.numbers.shape)

    def run(self, function: str, inputs: Sequence[Item]) -> list[Item]:
        """Read a function of the net with these arguments and return what it gives."""
        return self.interpreter.call(function, inputs, self.place)


def _kind_of(item: Item) -> str:
    return {
        "Handle": "a variable itself",
        "Dead": "a branch that is not taken",
        "Saved": "a checkpoint",
        "TensorList": "a list of tensors",
    }.get(type(item).__name__, "something else")


Read = Callable[["TensorFlowOperation"], "Item | Sequence[Item]"]


@dataclass(frozen=True, slots=True)
class OperatorReader:
    """Reader of an operator type.

    Attributes:
        read: Adds its nodes and returns its outputs.
        plain: Whether it computes nothing that a net should show: a constant, a copy, control flow.
    """

    read: Read
    plain: bool = False


READERS: RuleTable[Read, OperatorReader] = RuleTable(OperatorReader)
"""The readers by the operator's name."""

operator_reader = READERS.register

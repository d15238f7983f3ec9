"""Reading the nodes that some outputs need, in order, functions included."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, SourceError, UnsupportedError
from netweave.formats.lowering.channels_last import ChannelsLastNet, Stored, Tensor
from netweave.formats.tensorflow.folding import MAX_NODES, fold, simplify
from netweave.formats.tensorflow.frames import MERGE
from netweave.formats.tensorflow.nodes import Body, Node, OperatorReader, Program, Ref, TensorFlowOperation
from netweave.formats.tensorflow.operands import Dead, Item
from netweave.formats.tensorflow.operators import READERS, REASONS
from netweave.graph import Origin
from netweave.graph.ordering import CycleError, inputs_first

if TYPE_CHECKING:
    from netweave.formats.tensorflow.opening import Variables
    from netweave.formats.tensorflow.reader import Inputs

MAX_DEPTH = 64
"""Functions that call functions beyond this depth are refused."""


class Interpreter:
    """Reads a program's nodes.

    Args:
        program: The main graph and its functions.
        net: What its nodes share.
        variables: Gives the arrays of variables.
        inputs: Gives the net's inputs.

    Attributes:
        max_nodes: How many operators there may be after loops and functions are unrolled.
    """

    def __init__(
        self,
        program: Program,
        net: ChannelsLastNet,
        *,
        variables: Variables,
        inputs: Inputs,
    ) -> None:
        self.program = program
        self.net = net
        self.variables = variables
        self.inputs = inputs
        self.max_nodes = MAX_NODES
        self._depth = 0
        self._num_calls = 0
        self._simplified: dict[str, Body] = {}
        self._bodies: list[Body] = []

    def run(self, wanted: Sequence[Ref]) -> list[Item]:
        """Read what outputs of the main graph need, and return them."""
        return self._run(self.program.main, {}, wanted)

    def call(self, name: str, inputs: Sequence[Item], place: str) -> list[Item]:
        """Read a function with these arguments, and return what it gives.

        Raises:
            ReadError: There is no such function, or it takes other arguments.
            UnsupportedError: Functions call one another without end.
        """
        body = self.program.functions.get(name)
        if body is None:
            raise ReadError(f"calls the function {name!r}, which the file does not contain", place=place)
        if len(inputs) != len(body.arguments):
            raise ReadError(
                f"passes {len(inputs)} arguments to {name!r}, expected {len(body.arguments)}", place=place
            )
        if self._depth >= MAX_DEPTH:
            raise UnsupportedError(
                f"function calls are nested more than {MAX_DEPTH} deep; does {name!r} call itself?",
                place=place,
            )
        self._depth += 1
        arguments = {key: [item] for key, item in zip(body.arguments, inputs, strict=True)}
        results = self._run(body, arguments, body.results)
        self._depth -= 1
        return results

    def within(self, given: Mapping[str, Sequence[Item]], wanted: Sequence[Ref]) -> list[Item]:
        """Read what some nodes of the body that is being read make, where others have made this already.

        Args:
            given: What nodes have made, by name.
            wanted: What to return.

        Raises:
            UnsupportedError: It is too deep inside of other loops.
        """
        if len(self._bodies) >= MAX_DEPTH:
            raise UnsupportedError(f"loops are nested more than {MAX_DEPTH} deep", place=self.program.file)
        return self._evaluate(self._bodies[-1], given, wanted)

    def spend(self, count: int, place: str) -> None:
        """Count what is written out: operators, iterations, and tensors of a list.

        Raises:
            UnsupportedError: It has become too much.
        """
        self._num_calls += count
        if self._num_calls > self.max_nodes:
            raise UnsupportedError(
                f"the net has more than {self.max_nodes:,} operators after loops and functions are unrolled",
                place=place,
            )

    def _run(self, body: Body, arguments: Mapping[str, Sequence[Item]], wanted: Sequence[Ref]) -> list[Item]:
        if body.name not in self._simplified:
            self._simplified[body.name] = simplify(body)
        return self._evaluate(self._simplified[body.name], arguments, wanted)

    def _evaluate(self, body: Body, given: Mapping[str, Sequence[Item]], wanted: Sequence[Ref]) -> list[Item]:
        outputs = dict(given)
        self._bodies.append(body)
        for node in _order(body, [name for name, _ in wanted], self.program, outputs):
            inputs = [self._output(outputs, ref, body) for ref in node.inputs]
            outputs[node.name] = self._read(node, inputs)
        self._bodies.pop()
        return [self._output(outputs, ref, body) for ref in wanted]

    def _output(self, results: Mapping[str, Sequence[Item]], ref: Ref, body: Body) -> Item:
        name, number = ref
        outputs = results.get(name, ())
        if number >= len(outputs):
            node = body.nodes.get(name)
            place = self.program.place(node) if node else self.program.file
            raise UnsupportedError(
                f"its output {number} is read, but it has only {len(outputs)} outputs", place=place
            )
        return outputs[number]

    def _read(self, node: Node, inputs: Sequence[Item]) -> Sequence[Item]:
        place = self.program.place(node)
        self.spend(1, place)
        if not self._depth and self.inputs.feeds(node):
            return [self.inputs.value(node, place)]
        if any(isinstance(item, Dead) for item in inputs) and node.op not in MERGE:
            return [Dead()] * 16
        folded = fold(node, inputs) if inputs else None
        if folded is not None:
            return folded
        reader = READERS.get(node.op)
        if reader is None and node.op in self.program.functions:  # so TensorFlow 1 calls a function
            return self.call(node.op, inputs, place)
        if reader is None:
            reason = f": {REASONS[node.op]}" if node.op in REASONS else ""
            raise UnsupportedError(
                f"an operator that Netweave does not support{reason}; "
                f"see docs/how-to/add-a-tensorflow-operator.md",
                place=place,
            )
        ctx = TensorFlowOperation(node, inputs, self, place)
        with ctx.located_errors():
            return self._lower(reader, ctx)

    def _lower(self, reader: OperatorReader, ctx: TensorFlowOperation) -> Sequence[Item]:
        if reader.plain:
            return _items(reader.read(ctx))
        node = ctx.node
        layer = self.net.builder.layers.new(
            node.name,
            node.op,
            settings_of(node),
            outputs=(node.name, *(f"{node.name}:{number}" for number in range(1, 16))),
            origin=Origin(self.program.file, node.line),
        )
        operands = [item for item in ctx.inputs if isinstance(item, (Tensor, Stored))]
        with ctx.recorded(layer, operands) as outputs:
            items = _items(reader.read(ctx))
            outputs += [item for item in items if isinstance(item, Tensor)]
        return items


def _items(items: Item | Sequence[Item]) -> list[Item]:
    return [items] if isinstance(items, Item) else list(items)


def settings_of(node: Node) -> dict[str, Any]:
    """Return a node's attributes as written, as JSON values; stored tensors are left out."""
    settings = {}
    for name, value in node.attributes.items():
        if not name.startswith("_") and not isinstance(value, np.ndarray):
            settings[name] = _json(value)
    return settings


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _order(body: Body, wanted: Sequence[str], program: Program, known: Container[str]) -> list[Node]:
    """Return the nodes that some need besides those that are made, each after those that it reads.

    Raises:
        ReadError: A node reads one that does not exist.
        UnsupportedError: Nodes read one another in a circle.
    """
    nodes = body.nodes

    def sources(name: str) -> list[str]:
        if name not in nodes:
            raise ReadError(f"there is no node named {name!r}, but another node reads it", place=program.file)
        return [source for source, _ in nodes[name].inputs]

    try:
        return [nodes[name] for name in inputs_first(wanted, sources, known=known)]
    except CycleError as circle:
        raise _circle(nodes[circle.path[-1]], program) from circle


def _circle(node: Node, program: Program) -> SourceError:
    if node.op in {"Merge", "NextIteration", "Enter", "Exit", "LoopCond", "Switch"}:
        return UnsupportedError(
            "is part of a loop of TensorFlow 1 that was not made by tf.while_loop; save the net with "
            "control flow v2 (tf.compat.v1.enable_control_flow_v2)",
            place=program.place(node),
        )
    return ReadError("depends on its own output", place=program.place(node))

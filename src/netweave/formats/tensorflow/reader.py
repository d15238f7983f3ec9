"""Reader of TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError
from netweave.files import Source
from netweave.files.unknown_names import (
    UnknownLayer,
    check_input_names,
    refuse_unknown_layers,
    refuse_unknown_settings,
)
from netweave.formats.lowering.channels_last import ChannelsLastLayer, ChannelsLastNet, Stored, Tensor
from netweave.formats.lowering.windows import check_given_sizes, unknown_sizes
from netweave.formats.tensorflow.attributes import DTYPES, unknown_attributes
from netweave.formats.tensorflow.folding import can_fold, check_written_out, needed
from netweave.formats.tensorflow.frames import EXIT
from netweave.formats.tensorflow.interpreter import Interpreter
from netweave.formats.tensorflow.nodes import Node, Program, Ref
from netweave.formats.tensorflow.opening import Opened, Variables, open_net
from netweave.formats.tensorflow.operands import Item
from netweave.formats.tensorflow.operators import READERS, REASONS
from netweave.graph import BATCH, Graph, GraphBuilder

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})


class Inputs:
    """Makes an input of the net of each placeholder that is reached, once.

    An open first axis is the batch; a size that the source fixes stays, since its graph may count on it.

    Args:
        builder: Where inputs are added.
        names: What inputs are called, by the name of their node, where it is not that name.
        shapes: Sizes that the caller gave, by the input's name.
        file: The net's file, for messages.

    Attributes:
        notes: What a user should know about the reading.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        *,
        names: Mapping[str, str],
        shapes: Mapping[str, tuple[int, ...]],
        file: str,
    ) -> None:
        self.notes: list[str] = []
        self._builder = builder
        self._file = file
        self._names = names
        self._shapes = dict(shapes)
        self._made: dict[str, Item] = {}

    def name_of(self, node: Node) -> str:
        """Return what the input of a node is called."""
        return self._names.get(node.name, node.name)

    def feeds(self, node: Node) -> bool:
        """Return whether a node that is no placeholder is an input, since the net's signature says so."""
        return node.name in self._names and node.op not in PLACEHOLDERS

    def value(self, node: Node, place: str) -> Item:
        """Return the input of a node.

        Raises:
            ShapeError: Nobody says how many axes it has.
            UnsupportedError: It is of a type that no net computes with.
        """
        if node.name not in self._made:
            self._made[node.name] = self._make(node, place)
        return self._made[node.name]

    def check(self) -> None:
        """Raise ``UsageError`` if the caller gave sizes for an input that the net does not have."""
        known = [self._names.get(name, name) for name in self._made]
        check_input_names(self._shapes, known, place=self._file)

    def _make(self, node: Node, place: str) -> Item:
        name = self.name_of(node)
        kind = str(node.attributes.get("dtype", node.attributes.get("T", "DT_FLOAT")))
        shape = node.attributes.get("shape")
        if kind == "DT_BOOL" and not shape:
            self.notes.append(f"{name!r}, which says how the net is run, is taken as False")
            return Stored.constant(np.asarray(False))
        if kind not in DTYPES:
            raise UnsupportedError(
                f"is an input of type {kind}, which is not supported; freeze it from a later node on",
                place=place,
            )
        sizes = self._shapes.get(name, shape)
        if sizes is None:
            raise unknown_sizes(name, place=place)
        declared = list(shape) if shape is not None else [None, *sizes[1:]]
        check_given_sizes(name, declared, sizes, place=place)
        dims: list[int | str | None] = list(sizes)
        if dims and declared[0] is None:
            dims[0] = BATCH
        dtype = ir.DataType.from_numpy(DTYPES[kind])
        return Tensor(self._builder.input(name, dims, dtype=dtype, batch=False))


# Training, saving and summaries are cut off first, and so is all that follows from a loss or from a label:
# a net is read as it predicts.

LOSSES = frozenset(
    {
        "SoftmaxCrossEntropyWithLogits",
        "SparseSoftmaxCrossEntropyWithLogits",
        "L2Loss",
        "InTopK",
        "InTopKV2",
        "CTCLoss",
    }
)
"""Operators that judge a prediction; neither they nor what follows from them is an output."""

IDLE = frozenset({"NoOp", "Const", "Assert", "RestoreV2", "SaveV2", "ShardedFilename", "MergeV2Checkpoints"})
"""Operators that are no output."""

SIZES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Operators whose results say nothing of the values that they read."""

VIEWS = frozenset({"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"})
"""Operators that bring a tensor into form for a loss."""

_WRITES = re.compile(
    r"(Resource|Sparse)?Apply|Assign|^(Resource)?Scatter(Nd)?(Add|Div|Max|Min|Mul|Sub|Update)|Summary|^Save|^Restore"
    r"|IsVariableInitialized"
)
_TRAINING = re.compile(r"(^|/)(gradients(_\d+)?|save(_\d+)?|Initializer|report_uninitialized_variables)/")

WEIGHTS = frozenset({"VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable"})


def find_outputs(program: Program) -> list[Ref]:
    """Return the outputs of a main graph that no signature describes.

    Raises:
        ReadError: There is none.
    """
    nodes = [node for node in program.main.nodes.values() if not _is_training(node)]
    names = {node.name for node in nodes}
    fed = _reached(nodes, lambda node: node.op in PLACEHOLDERS or node.op == "PlaceholderWithDefault")
    judged = _with_views(nodes, _reached(nodes, lambda node: node.op in LOSSES))
    weighted = _reached(nodes, _has_weights)
    live = [node for node in nodes if node.name in fed and node.name not in judged and node.op not in IDLE]
    read = {ref[0] for node in live for ref in node.inputs}
    ends = [node for node in live if node.name not in read and node.op not in PLACEHOLDERS]
    ends = [node for node in ends if node.op != "PlaceholderWithDefault" and node.name in names]
    ends = [node for node in ends if node.op not in EXIT] or ends  # a loop gives all that it keeps
    best = [node for node in ends if node.name in weighted] or ends
    if not best:
        raise ReadError(
            "found no outputs: no node that depends on a placeholder is left after training, losses and "
            "saving are removed; save the net with a signature, or frozen up to its output",
            place=program.file,
        )
    return [(node.name, 0) for node in best]


def _with_views(nodes: list[Node], judged: set[str]) -> set[str]:
    """Return the nodes that follow from a loss, and those that only bring tensors into form for them."""
    readers: dict[str, set[str]] = {}
    for node in nodes:
        for name, _ in node.inputs:
            readers.setdefault(name, set()).add(node.name)
    judging = set(judged)
    stack = [node for node in nodes if node.op in VIEWS]
    for node in reversed(stack):  # a file lists nodes after those that they read, or nearly so
        if readers.get(node.name) and readers[node.name] <= judging:
            judging.add(node.name)
    return judging


def _is_training(node: Node) -> bool:
    return bool(_WRITES.search(node.op)) or bool(_TRAINING.search(node.name))


def _has_weights(node: Node) -> bool:
    value = node.attributes.get("value")
    return node.op in WEIGHTS or (node.op == "Const" and getattr(value, "size", 0) > 1)


def _reached(nodes: list[Node], start: object) -> set[str]:
    """Return the names of the nodes that hold, and of all that follows from them."""
    assert callable(start)
    readers: dict[str, list[str]] = {}
    for node in nodes:
        for name, _ in node.inputs if node.op not in SIZES else ():
            readers.setdefault(name, []).append(node.name)
    stack = [node.name for node in nodes if start(node)]
    reached = set(stack)
    while stack:
        for name in readers.get(stack.pop(), ()):
            if name not in reached:
                reached.add(name)
                stack.append(name)
    return reached


def read(source: Source) -> Graph:
    """Read a net of TensorFlow: a frozen graph, a MetaGraph with its checkpoint, or a SavedModel."""
    opened = open_net(source)
    check_written_out(opened.program)
    _check_operators(opened.program, [ref for _, ref in wanted_outputs(opened)])
    return lower(opened, name=_name(source), format_name="tensorflow", input_shapes=source.input_shapes)


def lower(
    opened: Opened,
    *,
    name: str,
    format_name: str,
    input_shapes: Mapping[str, tuple[int, ...]],
    interpreter: type[Interpreter] = Interpreter,
) -> Graph:
    """Return the Graph of a net that was opened.

    Args:
        opened: The net as its files hold it.
        name: Its name.
        format_name: Name of the format.
        input_shapes: Sizes that the caller gave, by the input's name.
        interpreter: Who reads its nodes.
    """
    wanted = wanted_outputs(opened)
    builder = GraphBuilder(name, format=format_name, files=opened.files)
    output_names = [name for name, _ in wanted]
    net = ChannelsLastNet(builder, reserved=output_names)
    names = {tensor.partition(":")[0]: key for tensor, key in opened.inputs.items()}
    inputs = Inputs(builder, names=names, shapes=input_shapes, file=opened.program.file)
    variables = Variables(opened.program, opened.bundle)
    items = interpreter(opened.program, net, variables=variables, inputs=inputs).run(
        [ref for _, ref in wanted]
    )
    inputs.check()
    outputs = _output_tensors(output_names, items, opened.program)
    whole_net = ChannelsLastLayer(net, place=opened.program.file)
    graph = builder.finish(whole_net.net_outputs(outputs, output_names))
    return replace(graph, notes=tuple(inputs.notes))


def _name(source: Source) -> str:
    path = source.net
    return path.parent.name if path.name.startswith("saved_model.") else path.stem


def wanted_outputs(opened: Opened) -> list[tuple[str, Ref]]:
    """Return the net's outputs by name: those of its signature, or the ends of its graph."""
    if not opened.outputs:
        return [(name, (name, number)) for name, number in find_outputs(opened.program)]
    wanted = []
    for key, tensor in opened.outputs.items():
        name, _, number = tensor.partition(":")
        if name not in opened.program.main.nodes or (number and not number.isdecimal()):
            raise ReadError(
                f"its signature names the output {tensor!r}, which the graph does not contain",
                place=opened.program.file,
            )
        wanted.append((key, (name, int(number or 0))))
    return wanted


def _output_tensors(names: Sequence[str], items: Sequence[Item], program: Program) -> list[Tensor | Stored]:
    tensors = [item for item in items if isinstance(item, (Tensor, Stored))]
    if len(tensors) < len(items):
        name = next(n for n, item in zip(names, items, strict=True) if not isinstance(item, (Tensor, Stored)))
        raise UnsupportedError(f"the output {name!r} is not a tensor", place=program.file)
    return tensors


def _check_operators(program: Program, wanted: Sequence[Ref]) -> None:
    """Refuse a net with unknown operators, naming each once with its nodes, or with unknown attributes."""
    nodes = list(needed(program, wanted))
    unknown = [
        UnknownLayer(node.op, node.name, node.line)
        for node in nodes
        if node.op not in READERS and not can_fold(node.op) and node.op not in program.functions
    ]
    refuse_unknown_layers(
        unknown,
        place=program.file,
        noun="operator",
        known=READERS,
        reasons=REASONS,
        how_to="add-a-tensorflow-operator",
    )
    refuse_unknown_settings(
        (attribute for node in nodes for attribute in unknown_attributes(node)), place=program.file
    )

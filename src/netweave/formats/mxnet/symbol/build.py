"""Building of graphs from MXNet's symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import UnsupportedError, UsageError, WeightError
from netweave.files.unknown_names import (
    UnknownLayer,
    UnknownSetting,
    check_input_names,
    refuse_unknown_layers,
    refuse_unknown_settings,
)
from netweave.formats.mxnet.symbol.context import MXNetOperator
from netweave.formats.mxnet.symbol.operators import READERS, REASONS
from netweave.formats.mxnet.symbol.registry import COUNT, ROLES
from netweave.formats.mxnet.symbol.settings import HARMLESS_SUFFIXES
from netweave.formats.mxnet.symbol.variables import Variables, deduce
from netweave.formats.mxnet.symbol.vertex import (
    VARIABLE,
    Document,
    Output,
    Vertex,
    caller,
    fresh_name,
    scoped_attributes,
    user_attributes,
)
from netweave.graph import Graph, GraphBuilder, Origin, layer_keys
from netweave.graph.summary import names_text


def build(
    document: Document,
    *,
    name: str,
    input_shapes: Mapping[str, tuple[int, ...]],
    arrays: Mapping[str, np.ndarray] | None = None,
    file: str = "",
    open_batch: bool = True,
) -> Graph:
    """Return the Graph of a net.

    Args:
        document: The net, upgraded.
        name: What the Graph is called.
        input_shapes: Input sizes by name, batch size first.
        arrays: The stored arrays by name, without ``arg:`` and ``aux:``; None if there are none.
        file: Name of the file that they are from.
        open_batch: Whether the batch stays symbolic; otherwise the Graph is for the sizes given alone.

    Raises:
        ReadError: A setting is not what its operator takes.
        UnsupportedError: The net has operators or settings that Netweave does not read.
        ShapeError: Sizes do not fit, or are not known and needed.
        WeightError: The stored arrays are not those of the net.
        UsageError: The caller gave sizes for an input that the net does not have.
    """
    return _Build(document, name, input_shapes, arrays, file, open_batch=open_batch).graph()


class _Build:
    """A symbol on its way to a Graph."""

    def __init__(
        self,
        document: Document,
        name: str,
        input_shapes: Mapping[str, tuple[int, ...]],
        arrays: Mapping[str, np.ndarray] | None,
        file: str,
        *,
        open_batch: bool,
    ) -> None:
        self._document = document
        self._nodes = document.nodes
        self._input_shapes = input_shapes
        self._arrays = arrays
        self._file = file
        files = [document.file, file] if file else [document.file]
        self._builder = GraphBuilder(name, format="mxnet", files=files)
        self._variables = Variables(
            self._builder,
            arrays,
            file=file,
            input_shapes=input_shapes,
            deduced=deduce(self._nodes, arrays or {}),
            open_batch=open_batch,
        )
        self._outputs: dict[Vertex, Sequence[ir.Value]] = {}
        self._unknown_settings: list[UnknownSetting] = []

    def graph(self) -> Graph:
        """Read every node and return the Graph."""
        self._check_operators()
        self._check_arrays()
        for node in self._nodes:
            if not node.is_variable:
                self._outputs[node] = self._read(node)
        refuse_unknown_settings(self._unknown_settings, place=self._document.file)
        graph = self._builder.finish(self._heads())
        self._check_input_shapes(graph)
        return graph

    def _read(self, node: Vertex) -> Sequence[ir.Value]:
        reader = READERS[node.op]
        settings = node.settings
        layer = self._builder.layers.new(node.name, node.op, dict(node.attributes), origin=node.origin)
        with self._builder.layer(layer):
            ctx = MXNetOperator(
                self._builder,
                node,
                settings,
                names=reader.argument_names(settings),
                sources=[self._input(entry, node) for entry in node.inputs],
                variables=self._variables,
            )
            lowered = reader.read(ctx)
            values = [lowered] if isinstance(lowered, ir.Value) else lowered
            outputs = self._named(values, reader.output_names(node.name, len(values)), layer.key)
        self._builder.record(layer, inputs=ctx.read.values(), outputs=outputs, parameters=ctx.parameters)
        self._unknown_settings += settings.unknown(UnknownLayer(node.op, node.name, node.origin.line))
        return outputs

    def _named(self, values: Sequence[ir.Value], names: Sequence[str], key: str) -> list[ir.Value]:
        """Give an operator's outputs their names; a value that was there before gets a name of its own."""
        named: list[ir.Value] = []
        for value, name in zip(values, names, strict=True):
            producer = value.producer()
            own = producer is not None and key in layer_keys(producer) and value not in named
            output = value if own else self._builder.add("Identity", [value])
            self._builder.rename(output, name)
            named.append(output)
        return named

    def _input(self, output: Output, reading: Vertex) -> ir.Value | Vertex:
        node, number = output
        if node.is_variable and not number:
            return node
        outputs = self._outputs.get(node, ())
        if number >= len(outputs):
            raise UnsupportedError(
                f"reads output {number} of {node.name!r} ({node.op}), of which Netweave makes {len(outputs)}",
                place=reading.place,
            )
        return outputs[number]

    def _heads(self) -> list[ir.Value]:
        heads: list[ir.Value] = []
        for output in self._document.heads:
            node = output.vertex
            head = self._input(output, node)
            value = self._variables.value(head) if isinstance(head, Vertex) else head
            if value.producer() is None or value in heads:
                value = self._builder.add("Identity", [value], outputs=f"{node.name}_output")
            heads.append(value)
        return heads

    def _check_operators(self) -> None:
        """Refuse a net with unknown operators, naming each once with its nodes."""
        refuse_unknown_layers(
            [
                UnknownLayer(node.op, node.name, node.origin.line)
                for node in self._nodes
                if not node.is_variable and node.op not in READERS
            ],
            place=self._document.file,
            noun="operator",
            known=READERS,
            reasons=REASONS,
            how_to="add-an-mxnet-operator",
        )

    def _check_arrays(self) -> None:
        """Refuse stored arrays that leave out some that layers need, naming them all."""
        if self._arrays is None:
            return
        needed: list[str] = []
        for node in self._nodes:
            for name, (source, _) in zip(node.argument_names() or (), node.inputs, strict=False):
                if name in ROLES and source.is_variable and not self._variables.is_input(source):
                    needed.append(source.name)
        missing = [name for name in dict.fromkeys(needed) if name not in self._arrays]
        if missing:
            raise WeightError(
                f"does not hold {names_text(missing)}, which {self._document.file} needs; it contains "
                f"{names_text(self._arrays, most=3)}",
                place=self._file,
            )

    def _check_input_shapes(self, graph: Graph) -> None:
        inputs = [value.name or "" for value in graph.inputs]
        check_input_names(self._input_shapes, inputs, place=self._document.file)


FIRST_VALUES = {
    ("", "moving_mean"): '["zero", {}]',
    ("", "moving_var"): '["one", {}]',
    ("LeakyReLU", "gamma"): '["Constant", {"value": 0.25}]',
    ("UpSampling", "weight"): '["bilinear", {}]',
}
"""Rules that MXNet gives to variables it makes itself, by operator ("" for any) and argument."""


def apply(
    op: str,
    positional: Sequence[Sequence[Output]],
    named: Mapping[str, Sequence[Output]],
    *,
    settings: Mapping[str, Any],
    name: str | None = None,
    hint: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> tuple[Output, ...]:
    """Return the outputs of a new node; inputs that are not given become variables.

    Args:
        op: The operator.
        positional: Inputs in order, each the outputs of a symbol.
        named: Inputs by name.
        settings: The operator's, as Python values; those that are None are left out.
        name: Name of the node; None for a fresh one.
        hint: What a fresh name begins with; the operator by default.
        attributes: Of the user.

    Raises:
        UsageError: There is no such operator, or inputs are too many, unknown, or given twice.
        ReadError: A setting that says which inputs there are is missing or wrong.
    """
    reader = READERS.get(op)
    if reader is None:
        raise UsageError(f"unknown operator {op!r}; docs/reference/layers.md lists the operators of MXNet")
    origin = caller()
    vertex = Vertex(fresh_name(name, hint or op.lower()), op, {}, (), origin)
    texts = {key: setting_text(value) for key, value in settings.items() if value is not None}
    if reader.counted:
        texts.setdefault(COUNT, str(max(1, len(positional) + len(named))))
    own = {key: text for key, text in texts.items() if not key.endswith(HARMLESS_SUFFIXES)}
    of_arguments = {key: text for key, text in texts.items() if key not in own}
    hidden = {**scoped_attributes(), **user_attributes(attributes or {})}
    vertex.attributes.update({**hidden, **own})
    names = vertex.argument_names()
    if names is None and named:
        raise UsageError(f"{vertex.place}: takes its inputs in order, not by name ({', '.join(named)})")
    given = _given(vertex, names, positional, named)
    if names is not None:
        vertex.inputs = tuple(
            given[key] if key in given else _variable(vertex, key, hidden, of_arguments, origin)
            for key in names
        )
    else:
        vertex.inputs = tuple(given.values())
    return tuple(Output(vertex, number) for number in range(reader.count(vertex.settings)))


def setting_text(value: Any) -> str:
    """Return a setting as MXNet writes it.

    >>> setting_text((3, 3)), setting_text(np.float32), setting_text([np.float64(0.5), True])
    ('(3, 3)', 'float32', '(0.5, True)')
    """
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, list | tuple):  # NumPy 2 writes its numbers in a tuple as np.float64(0.5)
        value = tuple(one.item() if isinstance(one, np.generic) else one for one in value)
    if isinstance(value, np.generic):
        value = value.item()
    return str(value)


def _given(
    vertex: Vertex,
    names: Sequence[str] | None,
    positional: Sequence[Sequence[Output]],
    named: Mapping[str, Sequence[Output]],
) -> dict[str, Output]:
    if names is not None and len(positional) > len(names):
        raise UsageError(
            f"{vertex.place}: {len(positional)} inputs given, expected at most {len(names)}: "
            f"{', '.join(names)}"
        )
    keys = list(names or map(str, range(len(positional))))[: len(positional)]
    unknown = [key for key in named if key not in (names or ())]
    if unknown:
        raise UsageError(
            f"{vertex.place}: no input {', '.join(map(repr, unknown))}; it has: {', '.join(names or ())}"
        )
    twice = [key for key in named if key in keys]
    if twice:
        raise UsageError(f"{vertex.place}: input {twice[0]!r} is given twice")
    pairs = [*zip(keys, positional, strict=True), *named.items()]
    return {key: _single(vertex, key, outputs) for key, outputs in pairs}


def _single(vertex: Vertex, key: str, outputs: Sequence[Output]) -> Output:
    if len(outputs) != 1:
        raise UsageError(
            f"{vertex.place}: input {key!r} has {len(outputs)} outputs, expected one; take one, as in "
            "symbol[0]"
        )
    return outputs[0]


def _variable(
    vertex: Vertex, argument: str, hidden: Mapping[str, str], multipliers: Mapping[str, str], origin: Origin
) -> Output:
    """Return the variable for an input that nobody gave, with the user's attributes of its node."""
    attributes = dict(hidden)
    rule = FIRST_VALUES.get((vertex.op, argument)) or FIRST_VALUES.get(("", argument))
    if rule is not None:
        attributes["__init__"] = rule
    for suffix in HARMLESS_SUFFIXES:
        text = multipliers.get(f"{argument}_{suffix}")
        if text is not None:
            attributes[f"__{suffix}__"] = text
    return Output(Vertex(f"{vertex.name}_{argument}", VARIABLE, attributes, (), origin))

"""Extraction of subgraphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.graph import Graph, LayerTable, known_shape, layer_keys, parameter_key
from netweave.graph.graph import needed_nodes, reads

if TYPE_CHECKING:
    from collections.abc import Sequence


class Extractor:
    """Cuts parts out of one graph; the graph must not change in the meantime.

    The names are looked up in an index that is made once, so that a cut costs about as much as the part
    is large.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = graph.values()
        self._values.update(graph.find(graph.aliases))
        self._node_position = {node: index for index, node in enumerate(graph.nodes)}
        self._layer_position = {key: index for index, key in enumerate(graph.layers)}

    def extract(self, *, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the part of the graph between some values; see ``extract``."""
        given = [self._value(name) for name in inputs]
        wanted = [self._value(name) for name in outputs]
        nodes = sorted(needed_nodes(wanted, given=given), key=self._node_position.__getitem__)
        known = {*given, *(value for node in nodes for value in node.outputs)}
        loose = dict.fromkeys(v for v in [*wanted, *_all_reads(nodes)] if v not in known)
        missing = [value.name for value in loose if not value.is_initializer()]
        if missing:
            raise UsageError(
                f"cannot cut {', '.join(outputs)} out of {self._graph.name!r}: "
                f"also needed as inputs: {', '.join(map(repr, missing))}"
            )
        view = ir.GraphView(
            given,
            wanted,
            nodes=nodes,
            initializers=list(loose),
            opset_imports=self._graph.model.graph.opset_imports,
            name=self._graph.name,
        )
        return self._wrapped(view.clone(), nodes)

    def _value(self, name: str) -> ir.Value:
        if name not in self._values:
            raise UsageError(f"no value named {name!r} in net {self._graph.name!r}")
        return self._values[name]

    def _wrapped(self, part: ir.Graph, nodes: Sequence[ir.Node]) -> Graph:
        whole = self._graph
        places = self._layer_position
        layers = sorted(
            {k for node in nodes for k in layer_keys(node) if k in places}, key=places.__getitem__
        )
        stored = dict.fromkeys(filter(None, map(parameter_key, part.initializers.values())))
        model = ir.Model(
            part,
            ir_version=whole.model.ir_version,
            producer_name=whole.model.producer_name,
            functions=list(whole.model.functions.values()),
        )
        return Graph(
            model=model,
            layers=LayerTable(whole.layers[key] for key in layers),
            parameters={key: whole.parameters[key] for key in stored if key in whole.parameters},
            declared={v.name: whole.declared[v.name] for v in part.inputs if v.name in whole.declared},
            format=whole.format,
            files=whole.files,
            unread={name: x for name, x in whole.unread.items() if name in part.initializers},
        )


def extract(graph: Graph, *, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """Return the nodes between some values as a graph of its own; ``graph`` is not changed.

    Names of values and nodes stay; initializers, layers and parameters of the part come along, arrays
    are shared. Many cuts of one graph are made faster by one ``Extractor``.

    Args:
        graph: The graph to cut from.
        inputs: Names of the values that the part is given: any values, also initializers.
        outputs: Names of the values that it gives back.

    Raises:
        UsageError: A name is unknown, or the outputs need more than the inputs.
    """
    return Extractor(graph).extract(inputs=inputs, outputs=outputs)


def _all_reads(nodes: Sequence[ir.Node]) -> list[ir.Value]:
    return [value for node in nodes for value in reads(node)]


_LARGE = 1 << 31
"""An end from here on is that of any axis, as exporters write it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements ``begin`` to ``end`` of a value along an axis, or a value that is no piece of another."""

    value: ir.Value
    source: ir.Value | None = None
    begin: int = 0
    end: int = 0

    @classmethod
    def of(cls, value: ir.Value, axis: int) -> Piece:
        """Return what a value is a piece of, if it is one along this axis."""
        maker = value.producer()
        if maker is None or maker.domain or maker.inputs[0] is None:
            return cls(value)
        shape = known_shape(maker.inputs[0])
        size = shape[axis] if shape is not None and axis < len(shape) else None
        span = None
        if size is not None and maker.op_type == "Split" and axis_of(maker) == axis:
            span = _span_of_split(maker, value, axis)
        elif size is not None and maker.op_type == "Slice":
            span = _span_of_slice(maker, axis, size)
        return cls(value) if span is None else cls(value, maker.inputs[0], *span)

    def is_followed_by(self, other: Piece) -> bool:
        """Return whether another piece is the next of the same value."""
        return self.source is not None and self.source is other.source and self.end == other.begin


def _span_of_split(split: ir.Node, piece: ir.Value, axis: int) -> tuple[int, int] | None:
    begin = 0
    for value in split.outputs:
        shape = known_shape(value)
        size = shape[axis] if shape is not None else None
        if size is None:
            return None
        if value is piece:
            return begin, begin + size
        begin += size
    return None


def _span_of_slice(cut: ir.Node, axis: int, size: int) -> tuple[int, int] | None:
    """Read a Slice with constant bounds, by steps of one, that leaves the other axes as they are."""
    shape, bounds = known_shape(cut.inputs[0]), _bounds_of_slice(cut)
    if shape is None or bounds is None:
        return None
    span = (0, size)
    for begin, end, along, step in bounds:
        if step != 1:
            return None
        if along % len(shape) == axis:
            span = _bounded(begin, size), _bounded(end, size)
        elif begin != 0 or end < (_LARGE if (whole := shape[along]) is None else whole):
            return None
    return span if span[0] < span[1] else None


def _bounds_of_slice(cut: ir.Node) -> list[tuple[int, int, int, int]] | None:
    """Return begin, end, axis and step for each axis that a Slice names; None if they are not stored."""
    given = [value.const_value if value is not None else None for value in cut.inputs[1:]]
    present = [value is not None for value in cut.inputs[1:]]
    if any(there and array is None for there, array in zip(present, given, strict=True)):
        return None
    rows = [[int(number) for number in array.numpy().ravel()] if array is not None else [] for array in given]
    count = len(rows[0])
    axes = rows[2] if len(rows) > 2 and rows[2] else list(range(count))
    steps = rows[3] if len(rows) > 3 and rows[3] else [1] * count
    return list(zip(rows[0], rows[1], axes, steps, strict=True))


def _bounded(position: int, size: int) -> int:
    return min(max(position + size if position < 0 else position, 0), size)


def axis_of(node: ir.Node) -> int | None:
    """Return the axis of a Concat or a Split, counted from the first; None if that is not known."""
    shape = known_shape(node.outputs[0])
    axis = node.attributes.get_int("axis", 0)
    if axis < 0:
        return axis + len(shape) if shape is not None else None
    return axis

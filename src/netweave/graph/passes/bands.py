"""Tiling: a run of layers is computed over bands of an image, one after the other, with less memory at once.

Each band is given the rows around it that its windows reach into (halos), and no padding but at the image's
own edges, so that every output is computed from the same numbers as before. What two bands both need is
computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.graph import attributes_of, known_shape
from netweave.graph.ops.pooling import num_windows
from netweave.graph.passes.rewrite import Pass, Rewriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph

ROW_AXIS = 2

ELEMENTWISE = frozenset(
    {"Abs", "Add", "BatchNormalization", "Clip", "Concat", "Div", "Elu", "Gelu", "HardSigmoid", "HardSwish"}
    | {"Identity", "LRN", "LeakyRelu", "Mish", "Mul", "PRelu", "Relu", "Sigmoid", "Softplus", "Sub", "Sum"}
    | {"Tanh"}
)
"""Operators of which a row of the output is made from the same row of the inputs."""

WINDOWED = frozenset({"AveragePool", "Conv", "MaxPool"})
"""Operators of which a row of the output is made from a window of rows of the first input."""


class NotTileableError(Exception):
    """Some layers cannot be computed over bands."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of rows: from ``begin`` to before ``end``."""

    begin: int
    end: int

    def __or__(self, other: Rows) -> Rows:
        return Rows(min(self.begin, other.begin), max(self.end, other.end))

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class _Need:
    """The rows that a node reads for some rows of its output.

    Attributes:
        rows: Of its inputs that are images.
        attributes: Its own then.
    """

    rows: Rows
    attributes: Mapping[str, Any]


def tile(graph: Graph, nodes: Sequence[ir.Node], num_bands: int) -> Graph:
    """Return a graph in which some nodes are computed over bands; the graph that is given stays as it is.

    Args:
        graph: The net as it predicts, with known heights and widths.
        nodes: Nodes of the graph, in its order; only one value of theirs is read by others.
        num_bands: Bands, >= 2.

    Raises:
        NotTileableError: An operator needs more than some rows, or several values leave the nodes.
    """
    names = {node.name for node in nodes}

    def edit(copy: Graph) -> None:
        _Tiler(copy, [node for node in copy.nodes if node.name in names]).tile(num_bands)

    return Pass(edit)(graph)


def is_tileable(node: ir.Node) -> bool:
    """Return whether rows of a node's output can be computed from some rows of its inputs."""
    if len(node.outputs) != 1 or _height(node.outputs[0]) is None:
        return False
    if node.op_type == "Concat" and attributes_of(node).get("axis") not in {1, -3}:
        return False
    return (node.op_type in ELEMENTWISE and node.domain == "") or node.op_type in WINDOWED


class _Tiler:
    """Tiles one run of nodes of one graph."""

    def __init__(self, graph: Graph, nodes: Sequence[ir.Node]) -> None:
        self._graph, self._nodes = graph, nodes
        self._own = set(nodes)
        self._rewriter = Rewriter(graph)
        self._exit = self._only_exit()

    def _only_exit(self) -> ir.Value:
        found = [
            value
            for node in self._nodes
            for value in node.outputs
            if value.is_graph_output() or any(user not in self._own for user, _ in value.uses())
        ]
        if len(found) != 1 or not all(map(is_tileable, self._nodes)):
            raise NotTileableError
        return found[0]

    def tile(self, num_bands: int) -> None:
        height = _height(self._exit)
        if height is None or height < num_bands:
            raise NotTileableError
        bounds = [height * number // num_bands for number in range(num_bands + 1)]
        bands = [Rows(begin, end) for begin, end in pairwise(bounds)]
        needs = [self._needs(band) for band in bands]
        after = self._nodes[-1]
        made = [self._band(band, need) for band, need in zip(bands, needs, strict=True)]
        whole = self._rewriter.insert(after, "Concat", made, {"axis": ROW_AXIS})
        self._rewriter.take_over(self._exit, whole.outputs[0])
        for node in reversed(self._nodes):
            self._graph.model.graph.remove(node, safe=True)

    def _needs(self, band: Rows) -> dict[ir.Value, Rows]:
        """Return the rows of each value that a band of the exit needs."""
        needed = {self._exit: band}
        for node in reversed(self._nodes):
            rows = needed.get(node.outputs[0])
            if rows is None:
                continue
            for value in _images(node):
                own = _need(node, rows).rows
                needed[value] = needed[value] | own if value in needed else own
        return needed

    def _band(self, band: Rows, needed: Mapping[ir.Value, Rows]) -> ir.Value:
        """Add the nodes of one band; return its part of the exit."""
        there: dict[ir.Value, tuple[ir.Value, int]] = {}
        for node in self._nodes:
            rows = needed.get(node.outputs[0])
            if rows is None:
                continue
            need = _need(node, rows)
            images = set(_images(node))
            inputs = [
                self._rows_of(value, need.rows, there) if value in images and value is not None else value
                for value in node.inputs
            ]
            anchor = self._nodes[-1]
            new = self._rewriter.insert(anchor, node.op_type, inputs, need.attributes, domain=node.domain)
            new.metadata_props.update(node.metadata_props)
            new.outputs[0].type = node.outputs[0].type
            new.outputs[0].shape = _with_rows(node.outputs[0], rows.count)
            there[node.outputs[0]] = (new.outputs[0], rows.begin)
        return there[self._exit][0]

    def _rows_of(
        self, value: ir.Value, rows: Rows, there: Mapping[ir.Value, tuple[ir.Value, int]]
    ) -> ir.Value:
        """Return some rows of a value, as a slice of what is there of it."""
        whole, begin = there.get(value, (value, 0))
        height = _height(whole)
        if rows.begin == begin and rows.count == height:
            return whole
        bounds = [
            self._rewriter.initializer(ir.tensor([number], dtype=ir.DataType.INT64), "band")
            for number in (rows.begin - begin, rows.end - begin, ROW_AXIS)
        ]
        new = self._rewriter.insert(self._nodes[-1], "Slice", [whole, *bounds])
        new.outputs[0].type = value.type
        new.outputs[0].shape = _with_rows(value, rows.count)
        return new.outputs[0]


def _images(node: ir.Node) -> list[ir.Value]:
    """Return the inputs of a node that rows are taken of."""
    if node.op_type in WINDOWED or node.op_type in {"BatchNormalization", "PRelu", "Clip"}:
        first = node.inputs[0]
        return [first] if first is not None else []
    height = _height(node.outputs[0])
    found = []
    for value in node.inputs:
        shape = known_shape(value)
        if value is None or shape is None:
            raise NotTileableError
        if len(shape) == 4 and shape[ROW_AXIS] == height and height != 1:
            found.append(value)
        elif len(shape) > 1 and shape[-2] != 1:
            raise NotTileableError  # a stored array with rows of its own
    return found


def _need(node: ir.Node, rows: Rows) -> _Need:
    """Return what a node reads for some rows of its output."""
    attributes = attributes_of(node)
    if node.op_type not in WINDOWED:
        return _Need(rows, attributes)
    sizes = known_shape(node.inputs[0])
    if sizes is None or len(sizes) != 4 or sizes[2] is None or sizes[3] is None:
        raise NotTileableError
    height, width = sizes[2], sizes[3]
    kernel = attributes.get("kernel_shape") or (known_shape(node.inputs[1]) or ())[2:]
    strides, dilations = (list(attributes.get(name) or [1, 1]) for name in ("strides", "dilations"))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    top, left, bottom, right = _resolved_pads(attributes, (height, width), extents, strides)
    begin, end = rows.begin * strides[0] - top, (rows.end - 1) * strides[0] - top + extents[0]
    read = Rows(max(begin, 0), min(end, height))
    if read.count < 1:
        raise NotTileableError  # windows that lie in the padding alone
    over = end - read.end
    if node.op_type == "AveragePool":
        over = min(over, bottom)  # what lies beyond the padding never counts
    changed = {**attributes, "pads": [read.begin - begin, left, over, right]}
    changed.pop("auto_pad", None)
    need = _Need(read, changed)
    if node.op_type != "Conv":
        _check_windows(node, need, rows, (width, extents, strides))
    return need


def _check_windows(
    node: ir.Node, need: _Need, rows: Rows, geometry: tuple[int, Sequence[int], Sequence[int]]
) -> None:
    """Raise if a pooling of a band has other windows than the whole: rounding looks at all paddings."""
    width, extents, strides = geometry
    pads = need.attributes["pads"]
    rounding = need.attributes.get("rounding") or ("ceil" if need.attributes.get("ceil_mode") else "floor")
    found = [
        num_windows(
            size,
            extents[axis],
            stride=strides[axis],
            pads=(pads[axis], pads[axis + 2]),
            rounding=rounding,
            any_pad=any(pads),
        )
        for axis, size in enumerate((need.rows.count, width))
    ]
    if found != [rows.count, (known_shape(node.outputs[0]) or ())[3]]:
        raise NotTileableError


def _resolved_pads(
    attributes: Mapping[str, Any], sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """Return the padding as ONNX lists it, for SAME worked out from the sizes."""
    rule = attributes.get("auto_pad", "NOTSET")
    if rule not in {"SAME_UPPER", "SAME_LOWER"}:
        given = attributes.get("pads") if rule == "NOTSET" else None
        return list(given or [0, 0, 0, 0])
    begins, ends = [], []
    for size, extent, stride in zip(sizes, extents, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        less, more = total // 2, total - total // 2
        begins.append(less if rule == "SAME_UPPER" else more)
        ends.append(more if rule == "SAME_UPPER" else less)
    return begins + ends


def _height(value: ir.Value | None) -> int | None:
    shape = known_shape(value)
    return shape[ROW_AXIS] if shape is not None and len(shape) == 4 and None not in shape[1:] else None


def _with_rows(value: ir.Value, count: int) -> ir.Shape:
    assert value.shape is not None
    dims = list(value.shape.dims)
    dims[ROW_AXIS] = count
    return ir.Shape(dims)

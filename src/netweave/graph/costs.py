"""Costs of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, cast

import onnx_ir as ir

from netweave.graph.layers import layer_keys
from netweave.graph.opset import BATCH
from netweave.graph.parameters import parameter_key

if TYPE_CHECKING:
    from netweave.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a node, a layer or a net.

    Attributes:
        multiply_adds: Multiplications followed by an addition, for the given batch.
        activation_bytes: Bytes of the outputs, for the given batch.
        parameters: Stored elements, whatever the batch.
        exact: False if a size was unknown, so that the numbers but for the parameters are lower bounds.
        has_open_parameters: Whether the size of a stored array is unknown, so that their number is a lower
            bound.
    """

    multiply_adds: int = 0
    activation_bytes: int = 0
    parameters: int = 0
    exact: bool = True
    has_open_parameters: bool = False

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiply_adds + other.multiply_adds,
            self.activation_bytes + other.activation_bytes,
            self.parameters + other.parameters,
            self.exact and other.exact,
            self.has_open_parameters or other.has_open_parameters,
        )


def node_cost(node: ir.Node, *, batch: int = 1) -> Cost:
    """Return the costs of one node.

    Multiply-adds are counted for convolutions, matrix products and recurrent cells, as is usual; biases,
    activations, normalisation and pooling are free. Parameters are the stored arrays that it reads.

    Args:
        node: The node, with shapes inferred.
        batch: Stands for the symbol of the batch, >= 1.
    """
    sizes = partial(sizes_of, batch=batch)
    outputs = [sizes(value) for value in node.outputs]
    multiply_adds, exact = _multiply_adds(node, sizes)
    num_bytes, parameters, seen = 0, 0, set()
    for made, size in zip(node.outputs, outputs, strict=True):
        num_bytes += _num_bytes(made, size)
    for value in node.inputs:
        if value is not None and parameter_key(value) is not None and value not in seen:
            seen.add(value)
            parameters += _product(sizes(value))
    return Cost(multiply_adds, num_bytes, parameters, exact and None not in outputs)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of the nodes or layers of a graph, in their order: for each figure of ``Cost`` a list.

    An object for each of tens of thousands of nodes would take longer than to count.
    """

    multiply_adds: list[int]
    activation_bytes: list[int]
    parameters: list[int]
    exact: list[bool]
    has_open_parameters: list[bool]

    @classmethod
    def of(cls, costs: Sequence[Cost]) -> Costs:
        """Return costs that are objects already."""
        return cls(
            [cost.multiply_adds for cost in costs],
            [cost.activation_bytes for cost in costs],
            [cost.parameters for cost in costs],
            [cost.exact for cost in costs],
            [cost.has_open_parameters for cost in costs],
        )

    def __iter__(self) -> Iterator[Cost]:
        return map(
            Cost,
            self.multiply_adds,
            self.activation_bytes,
            self.parameters,
            self.exact,
            self.has_open_parameters,
        )

    def total(self) -> Cost:
        """Return all of them together."""
        return Cost(
            sum(self.multiply_adds),
            sum(self.activation_bytes),
            sum(self.parameters),
            all(self.exact),
            any(self.has_open_parameters),
        )


def node_costs(graph: Graph, *, batch: int = 1) -> Costs:
    """Return the costs of a graph's nodes, in order; each shape is looked at once.

    Args:
        graph: The graph, with shapes inferred.
        batch: Stands for the symbol of the batch, >= 1.
    """
    nodes = list(graph.nodes)
    known = _KnownSizes(batch)
    stored = {
        value: _product(known.sizes(value))
        for value in graph.model.graph.initializers.values()
        if parameter_key(value) is not None
    }
    multiply_adds, num_bytes, parameters, exact = [0] * len(nodes), [], [], [True] * len(nodes)
    for number, node in enumerate(nodes):
        size = 0
        for value in node.outputs:
            made = known.num_bytes(value)
            if made is None:
                exact[number] = False
            else:
                size += made
        num_bytes.append(size)
        own = [value for value in node.inputs if value in stored]
        parameters.append(sum(map(stored.__getitem__, own if len(own) < 2 else set(own))))
        if node.op_type in _MULTIPLY_ADDS:
            multiply_adds[number], is_known = _multiply_adds(node, known.sizes)
            exact[number] &= is_known
    return Costs(multiply_adds, num_bytes, parameters, exact, [False] * len(nodes))


class _KnownSizes:
    """Sizes and bytes of values, for a batch of some size; each shape is looked at once.

    Nodes that are alike share the shape of their outputs (``shapes.infer_node``).
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._sizes: dict[int, _Sizes] = {id(None): None}
        self._num_bytes: dict[tuple[int, ir.DataType | None], int | None] = {}

    def sizes(self, value: ir.Value | None) -> _Sizes:
        key = id(value.shape if value is not None else None)
        if key not in self._sizes:
            self._sizes[key] = sizes_of(value, self._batch)
        return self._sizes[key]

    def num_bytes(self, value: ir.Value) -> int | None:
        """Return the bytes of a value, None if a size is not known."""
        key = id(value.shape), value.dtype
        if key not in self._num_bytes:
            sizes = self.sizes(value)
            self._num_bytes[key] = None if sizes is None else _num_bytes(value, sizes)
        return self._num_bytes[key]


def _multiply_adds(node: ir.Node, sizes: Callable[[ir.Value | None], _Sizes]) -> tuple[int, bool]:
    """Return the multiply-adds of a node, and whether all sizes that they depend on are known."""
    count = _MULTIPLY_ADDS.get(node.op_type)
    if count is None or node.domain:
        return 0, True
    try:
        made = count(node, [sizes(value) for value in node.inputs], [sizes(v) for v in node.outputs])
    except _UnknownSizeError:
        return 0, False
    return made, True


def layer_costs(graph: Graph, *, batch: int = 1, of_nodes: Costs | None = None) -> Costs:
    """Return the costs of each layer, in the order of the layers.

    Parameters are counted as the source counts them, at each layer that names them; a node of several
    layers counts for its first.

    Args:
        graph: The graph.
        batch: Stands for a symbolic batch size, >= 1.
        of_nodes: The costs of its nodes, if they are known.
    """
    known = of_nodes or node_costs(graph, batch=batch)
    places = {key: place for place, key in enumerate(graph.layers)}
    multiply_adds, num_bytes, exact = [0] * len(places), [0] * len(places), [True] * len(places)
    for number, node in enumerate(graph.nodes):
        for key in layer_keys(node):
            place = places.get(key)
            if place is not None:
                multiply_adds[place] += known.multiply_adds[number]
                num_bytes[place] += known.activation_bytes[number]
                exact[place] &= known.exact[number]
                break
    sizes = {key: parameter.size for key, parameter in graph.parameters.items()}
    of_open = {key for key, parameter in graph.parameters.items() if parameter.open_axes}
    stored = [
        sum(map(sizes.__getitem__, filter(sizes.__contains__, layer.parameters))) if layer.parameters else 0
        for layer in graph.layers.values()
    ]
    has_open = [not of_open.isdisjoint(layer.parameters) for layer in graph.layers.values()]
    return Costs(multiply_adds, num_bytes, stored, exact, has_open)


def total_cost(graph: Graph, *, batch: int = 1) -> Cost:
    """Return the costs of the whole net; a shared parameter counts once."""
    total = node_costs(graph, batch=batch).total()
    is_open = any(parameter.open_axes for parameter in graph.parameters.values())
    return replace(total, parameters=graph.num_parameters, has_open_parameters=is_open)


class _UnknownSizeError(Exception):
    """A size that a count needs is not known."""


_ONLY_INT = frozenset({int})


def sizes_of(value: ir.Value | None, batch: int) -> tuple[int, ...] | None:
    """Return the sizes of a value for a batch of some size; None if one of them is not known."""
    if value is None or value.shape is None:
        return None
    dims = value.shape.dims
    if _ONLY_INT.issuperset(map(type, dims)):
        return cast("tuple[int, ...]", tuple(dims))
    sizes: list[int] = []
    for dim in dims:
        if isinstance(dim, int):
            sizes.append(dim)
            continue
        size = batch if dim.value == BATCH else dim.evaluate({BATCH: batch})
        if not isinstance(size, int):
            return None
        sizes.append(size)
    return tuple(sizes)


def _product(sizes: tuple[int, ...] | None) -> int:
    return prod(sizes) if sizes is not None else 0


def num_bytes(value: ir.Value | None, batch: int) -> int:
    """Return the bytes of a value for a batch of some size; 0 if a size is not known."""
    return _num_bytes(value, sizes_of(value, batch))


def _num_bytes(value: ir.Value | None, sizes: tuple[int, ...] | None) -> int:
    itemsize = value.dtype.itemsize if value is not None and value.dtype else 4
    return int(_product(sizes) * itemsize)


_Sizes = tuple[int, ...] | None

_Shapes = Sequence[_Sizes]


def _known(shapes: _Shapes, index: int) -> tuple[int, ...]:
    sizes = shapes[index]
    if sizes is None:
        raise _UnknownSizeError
    return sizes


def _conv(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    """Every output element sums over the channels of its group and the filter."""
    return prod(_known(outputs, 0)) * prod(_known(inputs, 1)[1:])


def _conv_transpose(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    """Every input element is spread over the outputs of its group and the filter."""
    return prod(_known(inputs, 0)) * prod(_known(inputs, 1)[1:])


def _gemm(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    contracted = 0 if node.attributes.get_int("transA", 0) else 1
    return prod(_known(outputs, 0)) * _known(inputs, 0)[contracted]


def _matmul(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    return prod(_known(outputs, 0)) * _known(inputs, 0)[-1]


def _recurrent(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    """At every step of every sequence each element of both weights is used once; see ONNX LSTM."""
    steps, batch = _known(inputs, 0)[:2]
    return steps * batch * (prod(_known(inputs, 1)) + prod(_known(inputs, 2)))


_MULTIPLY_ADDS: dict[str, Callable[[ir.Node, _Shapes, _Shapes], int]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "RNN": _recurrent,
}


# A few bytes describe an array of any size: by its sizes, by a value that fills it, or by an operator that
# repeats it. What is *stored* in a file is bounded by the file and is not counted here.

MAX_ELEMENTS = 2**31 - 1
"""No tensor may have more elements: the limit of the sources, and of what a runtime can index."""

MAX_AXES = 64
"""No tensor may have more axes: NumPy's limit."""

MAX_COMPUTED = 1 << 20
"""A constant with more elements is computed ahead of time only if it is no larger than what it is made of."""

MAX_COMPUTED_IN_ALL = 1 << 23
"""Elements that the constants of one net may grow by together; what would grow beyond stays a node."""

MAX_FILLED = 1 << 25
"""Elements of one array that a file gives by a few values, the last of which fills the rest."""

MAX_LISTED = 1 << 16
"""Elements of a constant that are taken as Python's numbers: axes, sizes and settings."""

MAX_FOLLOWED = 1 << 10
"""Elements of a vector that are followed one by one while shapes are inferred, since they may be sizes."""


def num_elements(sizes: Iterable[int]) -> int | None:
    """Return the number of elements of an array; None if no array may have these sizes.

    The product is not formed beyond the limit: a million sizes of 2**40 would make a number of 5 MB, in
    minutes. Sizes beside a zero count as well, since one that is set later replaces the zero.

    Args:
        sizes: Whole numbers.

    >>> num_elements([3, 0, 5]), num_elements([]), num_elements([2**20, 2**20]), num_elements([-1])
    (0, 1, None, None)
    """
    count, is_empty = 1, False
    for axis, size in enumerate(sizes):
        if axis >= MAX_AXES or size < 0:
            return None
        is_empty = is_empty or size == 0
        count *= size or 1
        if count > MAX_ELEMENTS:
            return None
    return 0 if is_empty else count

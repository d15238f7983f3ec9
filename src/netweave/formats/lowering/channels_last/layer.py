"""Layers with channels last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError
from netweave.formats.lowering.channels_last.windows import (
    Operand,
    Stored,
    Tensor,
    arranged,
    is_first,
    position,
    to_first,
    to_last,
)
from netweave.formats.lowering.context import LayerContext
from netweave.formats.lowering.elementwise import find_function
from netweave.formats.lowering.indexing import FAR, Index, part_of
from netweave.formats.lowering.parameters import ParameterStore
from netweave.graph import GraphBuilder, Layer, known_shape, layer_keys
from netweave.graph.parameters import Step, apply_layout


class ChannelsLastLayer(LayerContext):
    """One layer of a source with channels last; sizes and axes are those of the source.

    Args:
        net: What the layers of the net share.
        settings: Its settings by name, if it has any; those that have their default may be missing or None.
        place: Where the layer stands in its source, for messages.
    """

    input_shape_example = "image=1x224x224x3"

    def __init__(
        self, net: ChannelsLastNet, settings: Mapping[str, Any] | None = None, *, place: str
    ) -> None:
        super().__init__(net.builder, place=place)
        self.net = net
        self._key: str | None = None
        self._settings = settings or {}
        self._asked_for: set[str] = set()

    # Its settings.

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting as written; the default also stands in for None."""
        self._asked_for.add(name)
        value = self._settings.get(name)
        return default if value is None else value

    def setting_error(self, name: str, expected: str) -> ReadError:
        """Return the error for a setting that the framework itself would refuse."""
        return self.read_error(f"{name}={self.setting(name)!r:.60}, expected {expected}")

    def number(self, name: str, default: float) -> float:
        """Return a setting that is a number."""
        value = self.setting(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.setting_error(name, "a number")
        return float(value)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a setting that is an integer; one without a default must be there."""
        value = self.setting(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.setting_error(name, "an integer")
        return value

    def integer_list(self, name: str, default: Any = None) -> list[int]:
        """Return a setting that is an integer or a list of them, as a list."""
        value = self.setting(name, default)
        numbers = [value] if isinstance(value, int) else value
        if not isinstance(numbers, (list, tuple)) or not all(isinstance(item, int) for item in numbers):
            raise self.setting_error(name, "integers")
        return list(numbers)

    @contextmanager
    def recorded(self, layer: Layer, inputs: Sequence[Operand]) -> Iterator[list[Tensor]]:
        """Put the layer in the table; nodes that are added inside belong to it.

        Args:
            layer: The layer, without its tensors and stored arrays.
            inputs: What it reads.

        Yields:
            A list for its outputs; they get the names that ``layer.outputs`` says.
        """
        outputs: list[Tensor] = []
        self._key = layer.key
        with self.builder.layer(layer):
            yield outputs
            for tensor, name in zip(outputs, layer.outputs, strict=False):
                self._name_output(tensor, name)
        self.builder.record(
            layer,
            inputs=[x.value for x in inputs if isinstance(x, Tensor)],
            outputs=[x.value for x in outputs],
            parameters=self.net.parameters.keys(layer.key),
        )

    def within(self, other: ChannelsLastLayer) -> None:
        """Work for another layer: which arrays are used counts as its own."""
        self._key = other._key

    def _name_output(self, tensor: Tensor, name: str) -> None:
        producer = tensor.value.producer()
        if producer is not None and self._key in layer_keys(producer):
            if name in self.net.reserved:
                name = _inner_name(name, first=tensor.first)
            self.builder.rename(tensor.value, name)

    def net_outputs(self, tensors: Sequence[Operand], names: Sequence[str]) -> list[ir.Value]:
        """Return the outputs of the net: in the source's order, of these names, each of a node of its own."""
        outputs: list[ir.Value] = []
        for tensor, name in zip(tensors, names, strict=True):
            value = self._net_output(tensor, name)
            outputs.append(self.add("Identity", [value], name=name) if value in outputs else value)
        return outputs

    def _net_output(self, x: Operand, name: str) -> ir.Value:
        value = self.source(x)
        own = isinstance(x, Tensor) and (x.first or value.name == _inner_name(name, first=False))
        if value.producer() is not None and (own or value.name == name):
            self.builder.rename(value, name)
            return value
        return self.add("Identity", [value], name=name)

    # Values in one of the two orders of axes.

    def source(self, x: Operand) -> ir.Value:
        """Return a value with the axes in the source's order."""
        if isinstance(x, Tensor):
            return self._reordered(x.value, to_last) if x.first else x.value
        return self.in_layout(x) if isinstance(x, Stored) else x

    def first(self, x: Operand) -> ir.Value:
        """Return a value with what the source has on the last axis on axis 1."""
        rank = self.rank(x)
        if isinstance(x, Stored):
            return self.in_layout(x, [("transpose", to_first(rank))] if rank > 2 else [])
        value = x.value if isinstance(x, Tensor) else x
        return value if is_first(x) or rank < 3 else self._reordered(value, to_first)

    def ordered(self, x: Operand, *, first: bool) -> ir.Value:
        """Return a value with channels on axis 1, or with the axes in the source's order."""
        return self.first(x) if first else self.source(x)

    def aligned(self, x: Operand, rank: int) -> ir.Value:
        """Return a value that can be broadcast against one of ``rank`` axes with channels first.

        Broadcasting counts axes from the last one, so missing axes are written out before they are moved.
        """
        missing = rank - self.rank(x)
        if not missing:
            return self.first(x)
        if missing == rank:
            return self.source(x)
        if isinstance(x, Stored):
            full = ("reshape", (1,) * missing + x.shape)
            return self.in_layout(x, [full, ("transpose", to_first(rank))])
        return self._reordered(self.add("Unsqueeze", [x, self.integers(range(missing))]), to_first)

    def tensor(self, x: Operand) -> Tensor:
        """Return a tensor as it is, and anything else as one in the source's order."""
        return x if isinstance(x, Tensor) else Tensor(self.source(x))

    def _reordered(self, value: ir.Value, order: AxisOrder) -> ir.Value:
        transposed = self.net.transposed
        if (value, order) not in transposed:
            other = self.transpose(value, order(len(known_shape(value) or ())))
            transposed[value, order] = other
            transposed[other, to_last if order is to_first else to_first] = value
        return transposed[value, order]

    # Sizes and stored arrays.

    def shape(self, value: Operand | None = None) -> tuple[int | None, ...]:
        """Return the sizes in the order of the source, None for one that is not known.

        Raises:
            ShapeError: Even the number of axes is unknown.
        """
        value = self.x if value is None else value
        if isinstance(value, Stored):
            return value.shape
        if isinstance(value, Tensor):
            return arranged(super().shape(value.value), first=value.first)
        return super().shape(value)

    def name_of(self, value: Operand | None = None) -> str:
        """Return the name of a value, by default of the first input."""
        value = self.x if value is None else value
        if isinstance(value, Stored):
            return str(value.key)
        return str(value.value.name if isinstance(value, Tensor) else value.name)

    def in_layout(
        self, x: Operand, layout: Sequence[Step] = (), *, role: str | None = None, name: str | None = None
    ) -> ir.Value:
        """Return an operand as a node needs it: a stored array as an initializer, else a value of nodes.

        Args:
            x: The operand.
            layout: Steps from the source's layout to the one that the node needs.
            role: What a stored array is to the node; by default what it was made as.
            name: Name of the initializer; by default the array's key.
        """
        if not isinstance(x, Stored):
            return self.relayout(self.source(x), layout)
        if x.key is None:
            assert x.array is not None, "a constant has values"
            return self.constant(apply_layout(x.array, layout), dtype=x.array.dtype)
        store = self.net.parameters
        store.declare(x.key, x.stored, role or x.role, x.array, context=self)
        if self._key is not None:
            store.note_use(self._key, x.key)
        return store.initializer(x.key, (*x.steps, *layout), name=name)

    # Nodes.

    def add(
        self,
        op_type: str,
        inputs: Sequence[Operand | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        name: str = "",
    ) -> ir.Value:
        """Add a node that reads its inputs in the source's order, and return its output."""
        values = [None if x is None else self.source(x) for x in inputs]
        return super().add(op_type, values, attributes, domain=domain, name=name)

    def unary(
        self,
        op_type: str,
        x: Operand,
        attributes: Mapping[str, Any] | None = None,
        more: Sequence[ir.Value | None] = (),
    ) -> Tensor:
        """Add an operator on each element of one tensor; it keeps the layout of what it reads.

        Args:
            op_type: ONNX's name.
            x: The tensor.
            attributes: Its attributes.
            more: Further inputs without axes: limits, a ratio.
        """
        first = is_first(x)
        return Tensor(self.add(op_type, [self.ordered(x, first=first), *more], attributes), first)

    def elementwise(self, function: str | Callable[..., ir.Value], x: Operand, **settings: Any) -> Tensor:
        """Add a function of each element of one tensor; it keeps the layout of what it reads.

        Args:
            function: One of ``netweave.formats.lowering.elementwise``, or the name of one.
            x: The tensor.
            settings: Its further arguments.

        Raises:
            UnsupportedError: No function is known by the name.
        """
        known = find_function(function) if isinstance(function, str) else function
        if known is None:
            raise self.unsupported(f"the function {function!r} is not read")
        first = is_first(x)
        return Tensor(known(self, self.ordered(x, first=first), **settings), first)

    def as_type(self, x: Operand, dtype: ir.DataType) -> Tensor:
        """Return a tensor with elements of another type."""
        return self.unary("Cast", x, {"to": int(dtype)})

    def broadcast(
        self, op_type: str, operands: Sequence[Operand], attributes: Mapping[str, Any] | None = None
    ) -> Tensor:
        """Add an operator that broadcasts its inputs, counted from the source's last axis."""
        if not operands:
            raise self.read_error(f"{op_type} has no inputs")
        rank = max(map(self.rank, operands))
        first = any(is_first(x) and self.rank(x) == rank for x in operands)
        values = [self.aligned(x, rank) if first else self.source(x) for x in operands]
        return Tensor(self.add(op_type, values, attributes), first)

    def scalar(self, number: float, like: Operand) -> ir.Value:
        """Add a constant number of the element type of another value."""
        return super().scalar(number, like.value if isinstance(like, Tensor) else self.source(like))


def _inner_name(name: str, *, first: bool) -> str:
    """Return what a value is called whose name only an output of the net may have."""
    return f"{name}/NCHW" if first else f"{name}:0"


def along(
    ctx: ChannelsLastLayer, op_type: str, x: Operand, axis: int, attributes: Mapping[str, Any] | None = None
) -> Tensor:
    """Add an operator with an attribute ``axis`` that keeps all sizes: Softmax, LogSoftmax."""
    at, value, first = _at(ctx, x, axis)
    return Tensor(ctx.add(op_type, [value], {**(attributes or {}), "axis": at}), first)


def concat(ctx: ChannelsLastLayer, operands: Sequence[Operand], axis: int) -> Tensor:
    """Join tensors along an axis.

    Raises:
        ReadError: There are none.
    """
    if not operands:
        raise ctx.read_error("joins no tensors, expected one or more")
    rank = max(map(ctx.rank, operands))
    first = any(map(is_first, operands))
    at = position(ctx.axis(axis, rank), rank, first=first)
    values = [ctx.ordered(x, first=first) for x in operands]
    if len(values) == 1:
        return Tensor(values[0], first)
    return Tensor(ctx.add("Concat", values, {"axis": at}), first)


def split(ctx: ChannelsLastLayer, x: Operand, sizes: Sequence[int], axis: int) -> list[Tensor]:
    """Cut a tensor along an axis into pieces of the given sizes."""
    at, value, first = _at(ctx, x, axis)
    if len(sizes) == 1:
        return [Tensor(value, first)]
    pieces = ctx.add_many("Split", [value, ctx.integers(sizes)], {"axis": at}, outputs=len(sizes))
    return [Tensor(piece, first) for piece in pieces]


def reduce(ctx: ChannelsLastLayer, op_type: str, x: Operand, axes: Sequence[int], *, keep: bool) -> Tensor:
    """Add a ReduceMean, ReduceSum, ... over some axes, with sizes of 1 in their place or without them."""
    value, places = _removable(ctx, x, axes, keep=keep)
    reduced = ctx.add(op_type, [value, ctx.integers(places)], {"keepdims": int(keep)})
    return Tensor(reduced, keep and is_first(x))


def arg(ctx: ChannelsLastLayer, op_type: str, x: Operand, axis: int) -> Tensor:
    """Add an ArgMax or ArgMin over an axis, which goes."""
    rank = ctx.rank(x)
    axis = ctx.axis(axis, rank)
    first = is_first(x) and axis == rank - 1  # without the channels the other axes are in the source's order
    attributes = {"axis": 1 if first else axis, "keepdims": 0}
    return Tensor(ctx.add(op_type, [ctx.ordered(x, first=first)], attributes))


def pad(
    ctx: ChannelsLastLayer,
    x: Operand,
    amounts: Sequence[tuple[int, int]],
    *,
    mode: str = "constant",
    fill: float = 0,
) -> Tensor:
    """Pad each axis by (begin, end) elements."""
    rank = len(amounts)
    first = is_first(x)
    value = ctx.ordered(x, first=first)
    order = to_first(rank) if first else range(rank)
    begins, ends = ([amounts[axis][side] for axis in order] for side in (0, 1))
    more: list[ir.Value | None] = [ctx.scalar(fill, value)] if mode == "constant" else []
    return Tensor(ctx.add("Pad", [value, ctx.integers([*begins, *ends]), *more], {"mode": mode}), first)


def cut(ctx: ChannelsLastLayer, x: Operand, bounds: Mapping[int, tuple[int, int, int]]) -> Tensor:
    """Take the elements from begin to before end in steps, along each axis that is named."""
    if not bounds:
        return ctx.tensor(x)
    rank = ctx.rank(x)
    first = is_first(x)
    value = ctx.ordered(x, first=first)
    rows = list(bounds.values())
    lists = [[row[i] for row in rows] for i in (0, 1)]
    lists.append([position(axis, rank, first=first) for axis in bounds])
    lists.append([row[2] for row in rows])
    return Tensor(ctx.add("Slice", [value, *map(ctx.integers, lists)]), first)


def flip(ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Turn a tensor the other way round along some axes."""
    rank = ctx.rank(x)
    return cut(ctx, x, {ctx.axis(axis, rank): (-1, -FAR, -1) for axis in axes})


def drop(ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Take out axes of size 1."""
    if not axes:
        return ctx.tensor(x)
    value, places = _removable(ctx, x, axes, keep=False)
    return Tensor(ctx.add("Squeeze", [value, ctx.integers(places)]))


def index(ctx: ChannelsLastLayer, x: Operand, items: Sequence[Index]) -> Tensor:
    """Take a part of a tensor, as Python and NumPy write it: ``x[:, 1:3, 0, None]``."""
    part = part_of(items, ctx.rank(x))
    taken = drop(ctx, cut(ctx, x, part.bounds), part.removed)
    return widen(ctx, taken, part.added) if part.added else taken


def _removable(
    ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int], *, keep: bool
) -> tuple[ir.Value, list[int]]:
    """Return a value, and where it has axes that may go: the others stay in the source's order."""
    rank = ctx.rank(x)
    gone = {ctx.axis(axis, rank) for axis in axes}
    left = [position(axis, rank, first=True) for axis in range(rank) if axis not in gone]
    first = is_first(x) and (keep or left == sorted(left))
    return ctx.ordered(x, first=first), sorted(position(axis, rank, first=first) for axis in gone)


def widen(ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Put in axes of size 1; the axes are those of the result."""
    return Tensor(ctx.unsqueeze(x, axes))


def transpose(ctx: ChannelsLastLayer, x: Operand, perm: Sequence[int]) -> Tensor:
    """Reorder axes; between channels first and last nothing is written."""
    rank = len(perm)
    if not isinstance(x, Tensor):
        return Tensor(ctx.add("Transpose", [x], {"perm": list(perm)}))
    if not x.first and rank > 2 and tuple(perm) == to_last(rank):
        return Tensor(x.value, first=True)
    moved = [position(axis, rank, first=x.first) for axis in perm]
    if moved == list(range(rank)):
        return Tensor(x.value)
    return Tensor(ctx.transpose(x.value, moved))


def gather(ctx: ChannelsLastLayer, x: Operand, indices: Operand, axis: int) -> Tensor:
    """Take entries along an axis by their numbers."""
    rank = ctx.rank(x)
    return Tensor(ctx.add("Gather", [x, indices], {"axis": ctx.axis(axis, rank)}))


def flatten(ctx: ChannelsLastLayer, x: Tensor) -> Tensor:
    """Bring all axes but the first into one, in the source's order."""
    shape = ctx.shape(x)
    if len(shape) == 2:
        return x
    value = x.value if x.first and all(size == 1 for size in shape[1:-1]) else ctx.source(x)
    return Tensor(ctx.add("Flatten", [value], {"axis": 1}))


def reshape(ctx: ChannelsLastLayer, x: Operand, sizes: Sequence[int | None]) -> Tensor:
    """Give a tensor other sizes, in the source's order of elements.

    Args:
        ctx: The layer.
        x: The tensor.
        sizes: The new sizes; None or -1 for those that follow from the others.

    Raises:
        ShapeError: More than one size is open.
    """
    shape = ctx.shape(x)
    wanted = [-1 if size is None else size for size in sizes]
    if isinstance(x, Tensor) and _keeps_batch(shape, wanted):
        if len(wanted) == 2:
            return flatten(ctx, x)
        wanted[0] = 0
        if len(shape) == 2 and all(size == 1 for size in wanted[1:-1]):  # a gate over the channels
            turned = [0, shape[1] or -1, *[1] * (len(wanted) - 2)]
            return Tensor(ctx.reshape(x.value, turned), first=True)
    if wanted.count(-1) > 1:
        # an open size that stays where it is can be said; the others cannot
        wanted = [
            0 if size == -1 and axis < len(shape) and axis < wanted.index(-1) + 1 and shape[axis] is None
            else size
            for axis, size in enumerate(wanted)
        ]  # fmt: skip
    if wanted.count(-1) > 1:
        raise ctx.shape_error(
            f"reshapes {_sizes_text(shape)} to {_sizes_text(sizes)}, where more than one size is open; "
            f"{ctx.give_sizes()}"
        )
    return Tensor(ctx.reshape(ctx.source(x), wanted))


def _keeps_batch(shape: Sequence[int | None], wanted: Sequence[int]) -> bool:
    """Return whether the first size stays, since the others hold as many elements as before."""
    if len(shape) < 2 or len(wanted) < 2:
        return False
    rest = [size for size in shape[1:] if size is not None]
    if len(rest) < len(shape) - 1:
        return False
    count = int(np.prod(rest, dtype=object))
    if wanted[0] != -1 and wanted[0] != shape[0]:
        return False
    if -1 in wanted[1:]:
        return wanted[0] == shape[0] and count > 0
    return int(np.prod(wanted[1:], dtype=object)) == count


def _at(ctx: ChannelsLastLayer, x: Operand, axis: int) -> tuple[int, ir.Value, bool]:
    rank = ctx.rank(x)
    first = is_first(x)
    value = ctx.ordered(x, first=first)
    return position(ctx.axis(axis, rank), rank, first=first), value, first


def _sizes_text(sizes: Sequence[int | None]) -> str:
    return "x".join("?" if size is None or size < 0 else str(size) for size in sizes)


AxisOrder = Callable[[int], tuple[int, ...]]
"""``to_first`` or ``to_last``: the order of the axes by their number."""


class ChannelsLastNet:
    """The stored arrays of a net, and its values in either order of axes, each made once.

    Args:
        builder: Where nodes are added.
        reserved: Names that only the net's outputs may have.
    """

    def __init__(self, builder: GraphBuilder, *, reserved: Sequence[str] = ()) -> None:
        self.builder = builder
        self.parameters = ParameterStore(builder)
        self.reserved = frozenset(reserved)
        self.transposed: dict[tuple[ir.Value, AxisOrder], ir.Value] = {}
        builder.reserve(reserved)

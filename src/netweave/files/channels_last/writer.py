"""Writing nodes for a source that keeps channels last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ShapeError, UnsupportedError
from netweave.files.channels_last.tensor import Operand, Stored, Tensor, arranged, to_first, to_last
from netweave.graph import GraphBuilder, Parameter, known_shape, layer_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import onnx_ir as ir

    from netweave.graph import Layer
    from netweave.graph.parameters import Step

Turn = Callable[[int], tuple[int, ...]]
"""``to_first`` or ``to_last``: the order of the axes by their number."""

STATISTICS = frozenset({"mean", "variance"})
"""Roles of stored arrays that no gradient changes."""


class Writer:
    """Writes nodes, and turns tensors where the layouts ask for it; each turn of a value is written once.

    Args:
        builder: Where nodes are added.
        reserved: Names that only the net's outputs may have.
    """

    def __init__(self, builder: GraphBuilder, *, reserved: Sequence[str] = ()) -> None:
        self.builder = builder
        self.place = ""
        self._reserved = frozenset(reserved)
        builder.reserve(reserved)
        self._turned: dict[tuple[ir.Value, Turn], ir.Value] = {}
        self._placed: dict[tuple[str, tuple[Step, ...]], ir.Value] = {}
        self._read: list[str] = []

    @contextmanager
    def layer(self, layer: Layer, inputs: Sequence[Operand]) -> Iterator[list[Tensor]]:
        """Put a layer in the table; what is written inside belongs to it.

        Args:
            layer: The layer, without its tensors and stored arrays.
            inputs: What it reads.

        Yields:
            A list for its outputs; they get the names that ``layer.outputs`` says.
        """
        outputs: list[Tensor] = []
        outer, self._read = self._read, []
        outer_place, self.place = self.place, layer.place
        with self.builder.layer(layer):
            yield outputs
            named = [self._named(t, n, layer.key) for t, n in zip(outputs, layer.outputs, strict=False)]
        outputs[:] = named
        self.builder.layers.add(
            replace(
                layer,
                inputs=tuple(str(x.value.name) for x in inputs if isinstance(x, Tensor)),
                outputs=tuple(str(x.value.name) for x in outputs),
                parameters=tuple(dict.fromkeys(self._read)),
            )
        )
        self._read = outer
        self.place = outer_place

    def _named(self, tensor: Tensor, name: str, key: str) -> Tensor:
        producer = tensor.value.producer()
        if producer is not None and key in layer_keys(producer):
            inner = _inner(name, first=tensor.first) if name in self._reserved else name
            self.builder.rename(tensor.value, inner)
        return tensor

    def output(self, x: Operand, name: str) -> ir.Value:
        """Return a value that is an output of the net: in the source's order, of this name, of a node."""
        value = self.source(x)
        own = isinstance(x, Tensor) and (x.first or value.name == _inner(name, first=False))
        if value.producer() is not None and (own or value.name == name):
            self.builder.rename(value, name)
            return value
        return self.builder.add("Identity", [value], outputs=name)

    def add(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
    ) -> ir.Value:
        """Add a node with one output and return the output."""
        return self.builder.add(op_type, inputs, attributes)

    def add_many(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        num_outputs: int,
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs and return them."""
        return self.builder.add_many(op_type, inputs, attributes, outputs=[""] * num_outputs)

    def integers(self, numbers: Sequence[int]) -> ir.Value:
        """Return a constant list of whole numbers: axes, sizes, indices."""
        return self.builder.constant(list(numbers), dtype=np.int64)

    def number(self, number: float, like: ir.Value) -> ir.Value:
        """Return a constant of the element type of another value."""
        dtype = like.dtype.numpy() if like.dtype is not None else np.float32
        return self.builder.constant(number, dtype=dtype)

    def source(self, x: Operand) -> ir.Value:
        """Return a value with the axes in the source's order."""
        if isinstance(x, Stored):
            return self.stored(x)
        return self._turn(x.value, to_last) if x.first else x.value

    def first(self, x: Operand) -> ir.Value:
        """Return a value with what the source has on the last axis on axis 1."""
        if isinstance(x, Stored):
            rank = len(x.shape)
            return self.stored(x, layout=[("transpose", to_first(rank))] if rank > 2 else [])
        if x.first or len(self.shape(x)) < 3:
            return x.value
        return self._turn(x.value, to_first)

    def aligned(self, x: Operand, rank: int) -> ir.Value:
        """Return a value that can be broadcast against one of ``rank`` axes with channels first.

        Broadcasting counts axes from the last one, so missing axes are written out before they are turned.
        """
        shape = self.shape(x)
        missing = rank - len(shape)
        if not missing:
            return self.first(x)
        if not shape:
            return self.source(x)
        if isinstance(x, Stored):
            full = ("reshape", (1,) * missing + x.shape)
            return self.stored(x, layout=[full, ("transpose", to_first(rank))])
        wide = self.add("Unsqueeze", [self.source(x), self.integers(range(missing))])
        return self._turn(wide, to_first)

    def shape(self, x: Operand) -> tuple[int | None, ...]:
        """Return the sizes in the order of the source, None for one that is not known.

        Raises:
            ShapeError: Even the number of axes is not known.
        """
        if isinstance(x, Stored):
            return x.shape
        found = known_shape(x.value)
        if found is None:
            raise self.wrong(
                f"the number of axes of its input {x.value.name!r} is not known; give the sizes of the "
                f"net's inputs, as in --input-shape image=1x224x224x3"
            )
        return arranged(found, first=x.first)

    def known(self, x: Operand, axes: Sequence[int]) -> list[int]:
        """Return sizes that must be known to write the operator.

        Raises:
            ShapeError: One is not known.
        """
        shape = self.shape(x)
        sizes = [shape[self.axis(axis, len(shape))] for axis in axes]
        found = [size for size in sizes if size is not None]
        if len(found) < len(sizes):
            raise self.wrong(
                "how it is computed depends on sizes that are not known; give the sizes of the net's "
                "inputs, as in --input-shape image=1x224x224x3"
            )
        return found

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises:
            ShapeError: There is no such axis.
        """
        if not -rank <= axis < max(rank, 1):
            raise self.wrong(f"axis {axis} of an input with {rank} axes")
        return axis % max(rank, 1)

    def stored(
        self, x: Stored, *, layout: Sequence[Step] = (), role: str | None = None, name: str | None = None
    ) -> ir.Value:
        """Return the initializer made from a stored array.

        Args:
            x: The array.
            layout: Steps from the source's layout to the one that the node needs.
            role: What the array is; by default what it was made as.
            name: Name of the initializer; by default the array's key.
        """
        if x.key is None:
            assert x.array is not None, "a constant has values"
            return self._constant(x.array, layout)
        steps = (*x.steps, *((kind, tuple(numbers)) for kind, numbers in layout))
        self._read.append(x.key)
        if (x.key, steps) not in self._placed:
            made = role or x.role
            entry = Parameter(
                x.key, x.stored, made, loaded=x.array is not None, trainable=made not in STATISTICS
            )
            self._placed[x.key, steps] = self.builder.parameter(entry, x.array, layout=steps, name=name)
        return self._placed[x.key, steps]

    def _constant(self, array: np.ndarray, layout: Sequence[Step]) -> ir.Value:
        for kind, numbers in layout:
            array = array.transpose(numbers) if kind == "transpose" else array.reshape(numbers)
        return self.builder.constant(array, dtype=array.dtype)

    def _turn(self, value: ir.Value, axes: Turn) -> ir.Value:
        if (value, axes) not in self._turned:
            perm = list(axes(len(known_shape(value) or ())))
            made = self.add("Transpose", [value], {"perm": perm})
            self._turned[value, axes] = made
            self._turned[made, to_last if axes is to_first else to_first] = value
        return self._turned[value, axes]

    def wrong(self, message: str) -> ShapeError:
        """Return the error for sizes that do not fit."""
        return ShapeError(message, place=self.place)

    def refuse(self, message: str) -> UnsupportedError:
        """Return the error for something that Netweave does not read."""
        return UnsupportedError(message, place=self.place)


def _inner(name: str, *, first: bool) -> str:
    """Return what a value is called whose name only an output of the net may have."""
    return f"{name}/NCHW" if first else f"{name}:0"

"""What an operator's reader works with: the node's settings and inputs, and the graph to add to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.graph import known_shape, parameter_key
from netweave.graph.parameters import ranges_of
from netweave.symbol.document import Node
from netweave.symbol.registry import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import GraphBuilder
    from netweave.symbol.settings import Settings
    from netweave.symbol.variables import Variables


MAX_RANGE = 10_000_000
"""A longer list of constants is refused before it is made."""


class Call:
    """One operator of the net while it is read.

    Args:
        node: The node.
        place: Where it stands, for messages.
        settings: Its settings.
        names: Names of its inputs, or None if they have none.
        inputs: Its inputs: values of other operators, or variables.
        variables: Turns variables into values.
        builder: Where nodes are added.

    Attributes:
        read: Values read so far that are no stored arrays.
        parameters: Keys of the stored arrays read so far.
    """

    def __init__(
        self,
        node: Node,
        *,
        place: str,
        settings: Settings,
        names: Sequence[str] | None,
        inputs: Sequence[ir.Value | Node],
        variables: Variables,
        builder: GraphBuilder,
    ) -> None:
        self.node = node
        self.op = node.op
        self.settings = settings
        self.read: list[ir.Value] = []
        self.parameters: list[str] = []
        self._place = place
        self._inputs = inputs
        self._names = list(names) if names is not None else None
        self._variables = variables
        self._builder = builder
        self._check_inputs()

    @property
    def num_inputs(self) -> int:
        """Number of inputs."""
        return len(self._inputs)

    def has(self, name: str) -> bool:
        """Whether there is an input of this name."""
        return self._names is not None and name in self._names[: len(self._inputs)]

    def value(
        self,
        which: str | int = 0,
        *,
        default: Sequence[int | None] | None = None,
        batch_axis: int = 0,
    ) -> ir.Value:
        """Return an input by name or number.

        Args:
            which: Its name or number.
            default: Sizes for an input of the net whose sizes nobody gave.
            batch_axis: Which axis is the batch, if it is an input of the net.
        """
        given = self._input(which)
        if isinstance(given, Node):
            given = self._variables.value(given, default=default, batch_axis=batch_axis)
        self._note(given)
        return given

    def values(self) -> list[ir.Value]:
        """Return all inputs; an input of the net of unknown sizes gets those of its neighbour."""
        known = next((known_shape(v) for v in self._inputs if not isinstance(v, Node)), None)
        return [self.value(number, default=known) for number in range(len(self._inputs))]

    def parameter(
        self,
        name: str,
        shape: Sequence[int | None],
        *,
        role: str | None = None,
        layout: Sequence[tuple[str, tuple[int, ...]]] = (),
    ) -> ir.Value:
        """Return an input that is a stored array; one that the net computes is brought into its layout.

        Args:
            name: Name of the input.
            shape: Its sizes in MXNet's layout; None where any is right or it is not known.
            role: See ``Parameter``; by default that of the name.
            layout: Steps from MXNet's layout to the one that the graph needs.
        """
        given = self._input(name)
        if isinstance(given, Node) and not self._variables.is_input(given):
            made = self._variables.parameter(given, shape=shape, role=role or ROLES[name], layout=layout)
            if given.name not in self.parameters:
                self.parameters.append(given.name)
            return made
        made = self.value(name, default=shape)
        for kind, numbers in layout:
            if kind == "transpose":
                made = self.add("Transpose", [made], {"perm": list(numbers)})
            elif kind == "reshape":
                made = self.add("Reshape", [made, self.whole_numbers(numbers)])
            else:
                made = self._ranges(made, numbers)
        return made

    def fixed_parameter(self, name: str, shape: Sequence[int | None], number: float) -> ir.Value:
        """Return an array of one number in the place of a stored one, which is entered all the same.

        Args:
            name: Name of the input.
            shape: Its sizes in MXNet's layout.
            number: The number.
        """
        given = self._input(name)
        if not isinstance(given, Node):
            raise self.refuse(f"its {name} is computed by the net; only a stored one is read here")
        sizes = self._variables.note(given, shape=shape, role=ROLES[name])
        self.parameters.append(given.name)
        array = ir.LazyTensor(
            lambda: ir.Tensor(np.full(sizes, number, np.float32)),
            dtype=ir.DataType.FLOAT,
            shape=ir.Shape(sizes),
            name=f"{given.name}/fixed",
        )
        return self._builder.derived(array, name=f"{given.name}/fixed")

    def stored_shape(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of the array that a file stores for an input, if there is one."""
        given = self._input(name)
        return self._variables.stored_shape(given) if isinstance(given, Node) else None

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
    ) -> ir.Value:
        """Add a node with one output and return the output."""
        return self._builder.add(op_type, inputs, attributes, domain=domain)

    def add_many(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        num_outputs: int,
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs and return them."""
        outputs = [""] * num_outputs
        return self._builder.add_many(op_type, inputs, attributes, domain=domain, outputs=outputs)

    def scalar(self, number: float, like: ir.Value) -> ir.Value:
        """Return a constant of the element type of another value."""
        dtype = like.dtype.numpy() if like.dtype is not None else np.float32
        return self._builder.constant(number, dtype=dtype)

    def array(self, array: np.ndarray) -> ir.Value:
        """Return a constant array."""
        return self._builder.constant(array, dtype=array.dtype)

    def arange(self, count: int) -> np.ndarray:
        """Return the whole numbers from 0 to before ``count``.

        Raises:
            ShapeError: They are more than ``MAX_RANGE``.
        """
        if not 0 <= count <= MAX_RANGE:
            raise self.wrong(f"it takes {count:,} numbers to write, expected at most {MAX_RANGE:,}")
        return np.arange(count, dtype=np.int64)

    def whole_numbers(self, numbers: Sequence[int]) -> ir.Value:
        """Return a constant list of whole numbers: axes, sizes, indices."""
        return self._builder.constant(list(numbers), dtype=np.int64)

    def shape(self, value: ir.Value) -> tuple[int | None, ...]:
        """Return the sizes of a value, None for one that is not known.

        Raises:
            ShapeError: Even its rank is not known.
        """
        found = known_shape(value)
        if found is None:
            raise self.wrong(f"the rank of its input {value.name!r} is not known")
        return found

    def size(self, value: ir.Value, axis: int) -> int | None:
        """Return one size of a value, None if it is not known.

        Raises:
            ShapeError: There is no such axis.
        """
        shape = self.shape(value)
        return shape[self.axis(axis, len(shape))]

    def known_sizes(self, value: ir.Value, axes: Sequence[int]) -> list[int]:
        """Return sizes that must be known to write the operator.

        Raises:
            ShapeError: One is not known, or there is no such axis.
        """
        sizes = [self.size(value, axis) for axis in axes]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            raise self.wrong(
                f"how it is computed depends on the sizes of {value.name!r}, of which some are not known; "
                f"give the net's input sizes, as in --input-shape data=1x3x224x224"
            )
        return known

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises:
            ShapeError: There is no such axis.
        """
        if not -rank <= axis < rank:
            raise self.wrong(f"axis {axis} of an input with {rank} axes")
        return axis % rank

    def wrong(self, message: str) -> ShapeError:
        """Return the error for sizes that do not fit."""
        return ShapeError(message, place=self._place)

    def refuse(self, message: str) -> UnsupportedError:
        """Return the error for something that Netweave does not read."""
        return UnsupportedError(message, place=self._place)

    def _ranges(self, x: ir.Value, numbers: Sequence[int]) -> ir.Value:
        """Join ranges of a one-dimensional value."""
        pieces = [
            self.add("Slice", [x, *(self.whole_numbers([bound]) for bound in (*bounds, 0))])
            for bounds in ranges_of(numbers)
        ]
        return self.add("Concat", pieces, {"axis": 0}) if len(pieces) > 1 else pieces[0]

    def _input(self, which: str | int) -> ir.Value | Node:
        number = which if isinstance(which, int) else (self._names or []).index(which)
        return self._inputs[number]

    def _note(self, value: ir.Value) -> None:
        key = parameter_key(value)
        if key is None:
            self.read.append(value)
        else:
            self.parameters.append(key)

    def _check_inputs(self) -> None:
        if self._names is not None and len(self._names) != len(self._inputs):
            raise ReadError(
                f"has {len(self._inputs)} inputs, expected {len(self._names)}: {', '.join(self._names)}",
                place=self._place,
            )

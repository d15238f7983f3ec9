"""Context of a layer and the rules of its format."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, SourceError, UnsupportedError
from netweave.graph import GraphBuilder, Layer, known_shape
from netweave.graph.parameters import Step, ranges_of

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


Shape = tuple[int | None, ...]
"""Sizes of a value, one per axis; None where a size is symbolic, as the batch is."""


MANY = 1 << 30
"""No upper bound on a number of inputs or outputs."""


@dataclass(eq=False)
class LayerContext:
    """One layer, or one operator, of a source net while it is lowered.

    A reader subclasses it with what is its own: how settings are spelled, and where the layer's inputs and
    stored arrays come from. All of them report the same mistake with the same class of error:

    - ``read_error``: a setting that the framework itself would refuse, whatever the sizes;
    - ``shape_error``: sizes that do not fit together, or do not fit a setting;
    - ``unsupported``: what the framework accepts, but Netweave does not read.

    Args:
        builder: Where nodes are added.
        place: Where the layer stands in its source, for messages.
        layer: Its entry in the table of layers, of readers whose files have lines.
    """

    builder: GraphBuilder
    place: str = field(kw_only=True)
    layer: Layer | None = field(kw_only=True, default=None)

    input_shape_example: ClassVar = "data=1x3x224x224"
    """How the sizes of an input are given on the command line, in the source's order of axes."""

    @property
    def x(self) -> Any:
        """The layer's first input: an ``ir.Value``, or what a reader keeps around one."""
        raise NotImplementedError

    # The sizes of a value.

    def shape(self, value: ir.Value | None = None) -> Shape:
        """Return the sizes of a value, by default of the first input.

        Raises:
            ShapeError: Even the number of axes is unknown.
        """
        value = self.x if value is None else value
        shape = known_shape(value)
        if shape is None:
            raise self.shape_error(f"the number of axes of {value.name!r} is unknown; {self.give_sizes()}")
        return shape

    def rank(self, value: Any = None) -> int:
        """Return the number of axes of a value, by default of the first input."""
        return len(self.shape(value))

    def size(self, axis: int, value: Any = None) -> int:
        """Return one size of a value, by default of the first input.

        Raises:
            ShapeError: It is unknown, or there is no such axis.
        """
        return self.sizes([axis], value)[0]

    def sizes(self, axes: Sequence[int], value: Any = None) -> list[int]:
        """Return sizes that must be known to lower the layer, by default of the first input.

        Raises:
            ShapeError: One is unknown, or there is no such axis.
        """
        sizes = [self.open_size(axis, value) for axis in axes]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            open_axes = [axis for axis, size in zip(axes, sizes, strict=True) if size is None]
            raise self.shape_error(
                f"the size of {self.name_of(value)!r} on axis {', '.join(map(str, open_axes))} is open, but "
                f"the layer depends on it; {self.give_sizes()}"
            )
        return known

    def open_size(self, axis: int, value: Any = None) -> int | None:
        """Return one size of a value, by default of the first input; None if it is open.

        Raises:
            ShapeError: There is no such axis.
        """
        shape = self.shape(value)
        return shape[self.axis(axis, len(shape))]

    def axis(self, axis: int, rank: int | None = None) -> int:
        """Return an axis counted from the front; negative ones count from the end.

        Args:
            axis: The axis.
            rank: The number of axes; by default that of the first input.

        Raises:
            ShapeError: There is no such axis.
        """
        rank = self.rank() if rank is None else rank
        if not -rank <= axis < rank:
            raise self.shape_error(f"axis {axis} is out of range for {rank} axes")
        return axis % rank

    def check_count(self, noun: str, count: int, expected: int | tuple[int, int]) -> None:
        """Refuse a layer that has too few or too many inputs or outputs.

        Args:
            noun: What is counted, in the framework's word: ``bottom``.
            count: How many the layer has.
            expected: How many its type takes, or the least and the most; ``MANY`` for no upper bound.

        Raises:
            ReadError: The count is outside the bounds.
        """
        least, most = (expected, expected) if isinstance(expected, int) else expected
        if not least <= count <= most:
            upper = " or more" if most == MANY else "" if least == most else f" to {most}"
            raise self.read_error(f"has {count} {noun}{'s' * (count != 1)}, expected {least}{upper}")

    def check_groups(
        self, groups: int, channels: Sequence[int | None], *, setting: str, line: int | None = None
    ) -> None:
        """Refuse a number of groups that does not divide the channels; an open size is not checked.

        Args:
            groups: How many groups there are.
            channels: The channels that come in, go out, or both.
            setting: The framework's name of the setting.
            line: Where it stands in the source.

        Raises:
            ReadError: There is less than one group.
            ShapeError: A number of channels is not divisible by that of groups.
        """
        if groups < 1:
            raise self.read_error(f"{setting!r} is {groups}, expected 1 or more", line)
        for count in channels:
            if count is not None and count % groups:
                raise self.shape_error(
                    f"{setting!r} is {groups}, which does not divide {count} channels", line
                )

    def require_rank(self, rank: int, value: Any = None) -> None:
        """Refuse a value with another number of axes, by default the first input.

        Raises:
            ShapeError: It has.
        """
        own_rank = self.rank(value)
        if own_rank != rank:
            words = {3: "three", 4: "four", 5: "five"}
            raise self.shape_error(f"needs {words.get(rank, rank)} axes, found {own_rank}")

    def positive_field(self, settings: Message, name: str) -> int:
        """Return a field of a message that must be 1 or more.

        Raises:
            ReadError: It is less.
        """
        value: int = settings[name]
        if value < 1:
            line = settings.line_of(name) or settings.line
            raise self.read_error(f"{name!r} is {value}, expected 1 or more", line)
        return value

    def name_of(self, value: Any = None) -> str:
        """Return the name of a value, by default of the first input."""
        value = self.x if value is None else value
        return str(value.name)

    def give_sizes(self) -> str:
        """Return what to do about an open size, as the end of a message."""
        return f"give the sizes of the net's inputs, as in --input-shape {self.input_shape_example}"

    # Nodes and constants.

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        name: str = "",
    ) -> ir.Value:
        """Add a node with one output and return the output.

        Args:
            op_type: ONNX's name, or one of the domain ``netweave``.
            inputs: Its inputs; None for an optional one that is left out.
            attributes: Its attributes; those that are None are left out.
            domain: ``""`` or ``"netweave"``.
            name: Name of the output; by default one is made from layer and operator.
        """
        return self.builder.add(op_type, inputs, attributes, domain=domain, outputs=name)

    def add_many(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int | Sequence[str],
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs and return them.

        Args:
            op_type: As for ``add``, like all that follow.
            inputs: Its inputs.
            attributes: Its attributes.
            outputs: Their names, ``""`` for one that is made from layer and operator; or how many there are.
            domain: ``""`` or ``"netweave"``.
        """
        names = [""] * outputs if isinstance(outputs, int) else outputs
        return self.builder.add_many(op_type, inputs, attributes, domain=domain, outputs=names)

    def constant(self, values: Any, *, dtype: Any = np.float32) -> ir.Value:
        """Add a constant that no source stores."""
        return self.builder.constant(values, dtype=dtype)

    def array(self, array: np.ndarray) -> ir.Value:
        """Add a constant array of its own element type."""
        return self.builder.constant(array, dtype=array.dtype)

    def integers(self, numbers: Sequence[int]) -> ir.Value:
        """Add a constant list of integers: axes, sizes, indices."""
        return self.builder.constant(list(numbers), dtype=np.int64)

    def scalar(self, number: float, like: ir.Value) -> ir.Value:
        """Add a constant number of the element type of another value."""
        dtype = like.dtype.numpy() if like.dtype is not None else np.float32
        return self.builder.constant(number, dtype=dtype)

    def transpose(self, value: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Return a value with its axes in another order."""
        if list(perm) == list(range(len(perm))):
            return value
        return self.add("Transpose", [value], {"perm": list(perm)})

    def reshape(self, value: Any, sizes: Sequence[int]) -> ir.Value:
        """Return a value with other sizes; 0 keeps an axis, -1 takes what is left."""
        return self.add("Reshape", [value, self.integers(sizes)])

    def flatten(self, value: ir.Value) -> ir.Value:
        """Return a value as (batch, all the rest)."""
        return value if len(known_shape(value) or ()) == 2 else self.add("Flatten", [value], {"axis": 1})

    def relayout(self, value: ir.Value, layout: Sequence[Step]) -> ir.Value:
        """Return a value that the net computes in the layout that a stored array would be brought into."""
        for kind, numbers in layout:
            if kind == "transpose":
                value = self.transpose(value, numbers)
            elif kind == "reshape":
                value = self.reshape(value, numbers)
            else:
                value = self._joined_ranges(value, numbers)
        return value

    def _joined_ranges(self, value: ir.Value, numbers: Sequence[int]) -> ir.Value:
        ranges = ranges_of(numbers)
        return self.concat([self.slice(value, [begin], [end], [0]) for begin, end in ranges], 0)

    def concat(self, values: Sequence[ir.Value], axis: int) -> ir.Value:
        """Return values one behind another along an axis; a single one as it is."""
        return values[0] if len(values) == 1 else self.add("Concat", values, {"axis": axis})

    def slice(
        self,
        value: ir.Value,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] = (),
    ) -> ir.Value:
        """Return a range of a value on some axes; steps are 1 by default."""
        bounds = [starts, ends, axes, *([steps] if steps else [])]
        return self.add("Slice", [value, *map(self.integers, bounds)])

    def unsqueeze(self, value: Any, axes: Sequence[int]) -> ir.Value:
        """Return a value with new axes of size 1; the axes are those of the result."""
        return self.add("Unsqueeze", [value, self.integers(axes)])

    def squeeze(self, value: Any, axes: Sequence[int]) -> ir.Value:
        """Return a value without some axes of size 1."""
        return self.add("Squeeze", [value, self.integers(axes)])

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return a value as another element type."""
        return self.add("Cast", [value], {"to": dtype})

    # Errors, to be raised.

    def read_error(self, message: str, line: int | None = None) -> ReadError:
        """Return the error for a setting that the framework itself would refuse."""
        return ReadError(message, place=self.place_of(line))

    def shape_error(self, message: str, line: int | None = None) -> ShapeError:
        """Return the error for sizes that do not fit."""
        return ShapeError(message, place=self.place_of(line))

    def unsupported(self, message: str, line: int | None = None) -> UnsupportedError:
        """Return the error for what Netweave does not read."""
        return UnsupportedError(message, place=self.place_of(line))

    def place_of(self, line: int | None) -> str:
        """Return where a line of the layer stands; the place of the layer itself without a line."""
        return self.place if line is None or self.layer is None else self.layer.place_at(line)

    @contextmanager
    def located_errors(self) -> Iterator[None]:
        """Give the layer's place to errors that are raised inside and have none."""
        try:
            yield
        except SourceError as error:
            if error.place:
                raise
            raise type(error)(error.message, place=self.place, open_inputs=error.open_inputs) from error


FunctionT = TypeVar("FunctionT")
EntryT = TypeVar("EntryT")


class RuleTable(dict[str, EntryT], Generic[FunctionT, EntryT]):
    """Rules of a reader by the framework's name of the type; ``register`` adds to it.

    Args:
        entry: Makes an entry from the decorated function and the options of the decorator.
    """

    def __init__(self, entry: Callable[..., EntryT]) -> None:
        super().__init__()
        self._entry = entry

    def register(self, *names: str, **options: Any) -> Callable[[FunctionT], FunctionT]:
        """Register the decorated function.

        Args:
            names: The framework's name of the type, and those that mean the same.
            options: Further arguments of the entry.
        """

        def decorate(function: FunctionT) -> FunctionT:
            entry = self._entry(function, **options)
            for name in names:
                # two files of one package that claim a name would depend on the order of imports
                assert name not in self, f"{name} has two rules"
                self[name] = entry
            return function

        return decorate


def import_families(package: str) -> None:
    """Import every module of a package for the rules that it registers.

    A package of rules calls it on itself, so that a new file of rules is named nowhere else.
    """
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")

"""What a layer's function is given: one layer of the net, ready to be written as nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, ShapeError, SourceError, UnsupportedError
from netweave.graph import known_shape

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from netweave.files.protobuf import Message
    from netweave.formats.singa.inputs import Feed
    from netweave.formats.singa.parameters import Parameters
    from netweave.formats.singa.unroll import Unit
    from netweave.graph import GraphBuilder, Layer
    from netweave.graph.parameters import Step

Shape = tuple[int | None, ...]

MANY = 1 << 30


@dataclass(slots=True)
class Made:
    """What a layer gives to those that read it.

    Attributes:
        values: One for all of them, or one for each in order.
        labels: Numbers of classes, of layers that have them.
        results: Values that leave the net, whatever reads the layer: losses and metrics.
        losses: Names of values that make the objective, with their weights.
        num_read: How many layers have read ``values``.
    """

    values: Sequence[ir.Value] = ()
    labels: ir.Value | None = None
    results: Mapping[str, ir.Value] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)
    num_read: int = 0

    def data(self, step: int = 0) -> ir.Value:
        """Return the value for the next layer that reads."""
        value = self.values[min(self.num_read, len(self.values) - 1)]
        self.num_read += 1
        return value

    def label(self) -> ir.Value | None:
        """Return the numbers of classes; None if the layer has none."""
        return self.labels


@dataclass(slots=True)
class Call:
    """One layer in place.

    Attributes:
        unit: The layer and its sources' names.
        layer: Its entry in the table of layers.
        builder: Where its nodes go.
        sources: What its sources give.
        parameters: The stored arrays of the net.
        training: Whether the net is that of training.
        readers: How many layers read it.
        joined: Values made of several stored arrays, which unrolled copies share.
        read: Names of the values that it has read.
    """

    unit: Unit
    layer: Layer
    builder: GraphBuilder
    sources: Sequence[Made | Feed]
    parameters: Parameters
    training: bool
    readers: int
    joined: dict[tuple[str, ...], ir.Value]
    read: list[str] = field(default_factory=list)

    @property
    def spec(self) -> Message:
        """The layer as the file has it."""
        return self.unit.spec

    def data(self, index: int = 0) -> ir.Value:
        """Return the value of a source."""
        value = self.sources[index].data(self.unit.index)
        self.read.append(value.name or "")
        return value

    def label(self, index: int = 1) -> ir.Value:
        """Return the numbers of classes that a source gives."""
        value = self.sources[index].label()
        if value is None:
            raise self.wrong(
                f"reads labels from {self.unit.sources[index]!r}, which has none; expected an input layer",
                self.spec.line_of("srclayers"),
            )
        self.read.append(value.name or "")
        return value

    def shape(self, value: ir.Value) -> Shape:
        """Return the sizes of a value; a symbolic one, such as the batch, is None."""
        shape = known_shape(value)
        if shape is None:
            raise self.wrong_shape(f"the sizes of {value.name!r} are not known")
        return shape

    def size(self, value: ir.Value, axis: int) -> int:
        """Return one size of a value that must be known."""
        size = self.shape(value)[axis]
        if size is None:
            raise self.wrong_shape(f"{value.name!r} has an open size on axis {axis}, a fixed one is needed")
        return size

    def rows(self, index: int = 0) -> tuple[ir.Value, int]:
        """Return a source as (batch, all the rest), which SINGA takes it for, and the size of the rest."""
        x = self.data(index)
        if len(self.shape(x)) != 2:
            x = self.builder.add("Flatten", [x], {"axis": 1})
        return x, self.size(x, 1)

    def images(self, index: int = 0) -> ir.Value:
        """Return a source as (batch, channels, height, width); one of three axes has one channel."""
        x = self.data(index)
        shape = self.shape(x)
        if len(shape) == 3:
            sizes = [0, 1, *(self.size(x, axis) for axis in (1, 2))]
            return self.builder.add("Reshape", [x, self.builder.constant(sizes, dtype="int64")])
        if len(shape) != 4:
            raise self.wrong_shape(f"needs images of three or four axes, found {len(shape)} axes")
        return x

    def expect_parameters(self, counts: Sequence[int], what: str) -> int:
        """Return how many parameters the layer has.

        Raises:
            ReadError: There are not as many as expected.
        """
        count = len(self.spec["param"])
        if count not in counts:
            wanted = " or ".join(map(str, counts))
            raise self.wrong(f"has {count} 'param', expected {wanted}: {what}")
        return count

    def parameter(
        self, index: int, shape: tuple[int, ...], role: str, *, layout: Sequence[Step] = ()
    ) -> ir.Value:
        """Return the initializer made from a stored array of the layer.

        Args:
            index: Its number among the layer's parameters.
            shape: Its sizes in SINGA.
            role: As in ``graph.Parameter``.
            layout: Steps from the stored array to the initializer.
        """
        return self.parameters.value(self, index, shape, role, tuple(layout))

    def statistic(self, index: int, shape: tuple[int, ...], role: str) -> tuple[str, np.ndarray | None]:
        """Return key and values of a stored array that no gradient changes; None without weights."""
        parameter, array = self.parameters.entry(self, index, shape, role, trainable=False)
        return parameter.key, array

    def add(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: dict[str, Any] | None = None
    ) -> ir.Value:
        """Add the node that makes the layer's value."""
        return self.builder.add(op_type, inputs, attributes, outputs=self.unit.name)

    def wrong(self, message: str, line: int | None = None) -> SourceError:
        """Return the error for a wrong setting, to be raised."""
        return ReadError(message, place=self._place(line))

    def wrong_shape(self, message: str, line: int | None = None) -> SourceError:
        """Return the error for sizes that do not fit, to be raised."""
        return ShapeError(message, place=self._place(line))

    def unsupported(self, message: str, line: int | None = None) -> SourceError:
        """Return the error for what Netweave does not read, to be raised."""
        return UnsupportedError(message, place=self._place(line))

    def _place(self, line: int | None) -> str:
        assert self.layer.origin is not None
        return self.unit.place(self.layer.origin.file, line)


Rule = Callable[[Call], Made]
"""Writes a layer's nodes and returns what it gives."""


@dataclass(frozen=True, slots=True)
class LayerRule:
    """How a type of layer is read, and how many sources it may have (least, most)."""

    rule: Rule
    sources: tuple[int, int]


LAYERS: dict[str, LayerRule] = {}
"""The rules by SINGA's name of the type; ``netweave.formats.singa.layers`` fills it."""


def layer(*types: str, sources: int | tuple[int, int] = 1) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule for types of layers.

    Args:
        types: SINGA's names of the types.
        sources: How many sources they have: a number, or (least, most).
    """

    def register(rule: Rule) -> Rule:
        least, most = (sources, sources) if isinstance(sources, int) else sources
        LAYERS.update(dict.fromkeys(types, LayerRule(rule, (least, most))))
        return rule

    return register

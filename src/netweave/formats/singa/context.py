"""One layer of a SINGA net while it is lowered, and the table of the rules by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering import LayerContext, RuleTable
from netweave.graph import Layer
from netweave.graph.parameters import Step

if TYPE_CHECKING:
    from netweave.files.protobuf import Message
    from netweave.formats.singa.checkpoint import Parameters
    from netweave.formats.singa.inputs import InputLayer
    from netweave.formats.singa.unroll import Unit


@dataclass(slots=True)
class Output:
    """The output of a layer for the layers that read it.

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


@dataclass(eq=False, kw_only=True)
class SingaLayer(LayerContext):
    """One layer in place.

    Attributes:
        unit: The layer and its sources' names.
        sources: What its sources give.
        parameters: The stored arrays of the net.
        training: Whether the net is that of training.
        joined: Values made of several stored arrays, which unrolled copies share.
        readers: How many layers read it.
        read: Names of the values that it has read.
    """

    layer: Layer
    unit: Unit
    sources: Sequence[Output | InputLayer]
    parameters: Parameters
    training: bool
    joined: dict[tuple[str, ...], ir.Value]
    readers: int = 1
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
            raise self.read_error(
                f"reads labels from {self.unit.sources[index]!r}, which has none; expected an input layer",
                self.spec.line_of("srclayers"),
            )
        self.read.append(value.name or "")
        return value

    def rows(self, index: int = 0) -> tuple[ir.Value, int]:
        """Return a source as (batch, all the rest), which SINGA takes it for, and the size of the rest."""
        x = self.flatten(self.data(index))
        return x, self.size(1, x)

    def images(self, index: int = 0) -> ir.Value:
        """Return a source as (batch, channels, height, width); one of three axes has one channel."""
        x = self.data(index)
        rank = self.rank(x)
        if rank == 3:
            return self.reshape(x, [0, 1, *self.sizes([1, 2], x)])
        if rank != 4:
            raise self.shape_error(f"needs images of three or four axes, found {rank} axes")
        return x

    def expect_parameters(self, counts: Sequence[int], what: str) -> int:
        """Return how many parameters the layer has.

        Raises:
            ReadError: There are not as many as expected.
        """
        count = len(self.spec["param"])
        if count not in counts:
            wanted = " or ".join(map(str, counts))
            raise self.read_error(f"has {count} 'param', expected {wanted}: {what}")
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
        key = self.parameters.entry(self, index, shape, role, trainable=False).key
        return key, self.parameters.array(key)

    def add_output(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
    ) -> ir.Value:
        """Add the node that makes the layer's value, which has the layer's name."""
        return self.add(op_type, inputs, attributes, name=self.unit.name)


Read = Callable[[SingaLayer], Output]
"""Writes a layer's nodes and returns what it gives."""


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Reader of a type of layer; its number of sources is a fixed number or (least, most)."""

    read: Read
    sources: int | tuple[int, int] = 1


LAYERS: RuleTable[Read, LayerReader] = RuleTable(LayerReader)
"""The readers by SINGA's name of the type; ``netweave.formats.singa.layers`` fills it."""

layer = LAYERS.register

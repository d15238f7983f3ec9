"""One layer of a Darknet net while it is lowered, and the table of the rules by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.formats.lowering import LayerContext, ParameterStore, RuleTable
from netweave.graph import Layer
from netweave.graph.parameters import Step

if TYPE_CHECKING:
    from netweave.formats.darknet.config import Section
    from netweave.formats.darknet.reader import WeightFile

HEADS = frozenset({"yolo", "Gaussian_yolo", "region", "detection"})
"""Types whose output is an output of the net, wherever they stand."""


@dataclass(frozen=True, slots=True)
class Training:
    """Settings for layers of a net that is read for training, or for testing with ground truth.

    Attributes:
        net: The section ``[net]``.
        truth: The ground-truth boxes, an input of the net.
        updates: Whether batches change the net: they do not where it is tested.
        losses: What the heads add to the objective; they fill it.
        statistics: What Darknet prints of the heads.
    """

    net: Section
    truth: ir.Value
    updates: bool
    losses: list[ir.Value] = field(default_factory=list)
    statistics: list[ir.Value] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class DarknetLayer(LayerContext):
    """One layer in place.

    Attributes:
        section: Its section.
        index: Its number, from 0; ``[net]`` is not counted.
        outputs: The net's input, and what the layers before it made.
        parameters: The stored arrays of the net.
        weights: The file of arrays, or None without one.
        training: What only training needs; None where the net is to predict.
        is_frozen: Whether training leaves the layer's weights alone.
        read: The values that were read, in order.
    """

    layer: Layer
    section: Section
    index: int
    outputs: Sequence[ir.Value]
    parameters: ParameterStore
    weights: WeightFile | None
    training: Training | None = None
    is_frozen: bool = False
    read: list[ir.Value] = field(default_factory=list)

    @property
    def x(self) -> ir.Value:
        """The output of the layer before."""
        return self._note(self.outputs[-1])

    @property
    def trains(self) -> bool:
        """True if the net is read to be trained."""
        return self.training is not None and self.training.updates

    @property
    def is_transposed(self) -> bool:
        """True if the file stores the weights of dense layers as (inputs, outputs)."""
        return self.weights is not None and self.weights.transposed

    def other(self, number: int, setting: str) -> ir.Value:
        """Return the output of another layer: a number below 0 counts back from this layer.

        Raises:
            ReadError: There is no such layer before this one.
        """
        index = number + self.index if number < 0 else number
        if not 0 <= index < self.index:
            raise self.section.read_error(setting, f"layers before this one, which is number {self.index}")
        return self._note(self.outputs[1 + index])

    def image(self, value: ir.Value | None = None) -> tuple[int, int, int]:
        """Return channels, height and width of a value, by default of the layer's input.

        Raises:
            ShapeError: It is no image: a dense layer's output, say.
        """
        shape = self.shape(value)
        sizes = [size for size in shape[1:] if size is not None]
        if len(shape) != 4 or len(sizes) != 3:
            raise self.shape_error(f"needs an image, but the layer before it returns {list(shape[1:])}")
        channels, height, width = sizes
        return channels, height, width

    def parameter(
        self,
        name: str,
        shape: Sequence[int],
        *,
        role: str,
        layout: Sequence[Step] = (),
        filler: Mapping[str, Any] | None = None,
    ) -> ir.Value:
        """Take the next stored array and return the initializer made from it.

        Args:
            name: Darknet's name for it.
            shape: Its sizes in the file.
            role: See ``Parameter``.
            layout: Steps from the file's layout to the one that the graph needs.
            filler: Rule for its first values; zeros if none is given.
        """
        key = f"{self.layer.key}/{name}"
        array = self.weights.take(shape, place=self.place, name=name) if self.weights else None
        self.parameters.declare(
            key,
            shape,
            role,
            array,
            context=self,
            filler=filler or {"type": "constant", "value": 0.0},
            lr_mult=0.0 if self.is_frozen else self.section.number("learning_rate", 1.0),
            decay_mult=1.0 if role == "weight" or self._is_adam else 0.0,
        )
        self.parameters.note_use(self.layer.key, key)
        return self.parameters.initializer(key, layout)

    @property
    def _is_adam(self) -> bool:
        """True if the update is Adam's, by which biases and scales decay too."""
        return self.training is not None and self.training.net.flag("adam")

    def split(self, value: ir.Value, sizes: Sequence[int]) -> tuple[ir.Value, ...]:
        """Cut the channels of a value into ranges."""
        return self.add_many("Split", [value, self.integers(sizes)], {"axis": 1}, outputs=len(sizes))

    def expect_unset(self, *names: str) -> None:
        """Refuse settings that change what is computed in a way that is not read here.

        Raises:
            UnsupportedError: One of them is written with another value than 0.
        """
        given = [name for name in names if self.section.number(name, 0.0)]
        if given:
            settings = ", ".join(f"{name}={self.section.settings[name]}" for name in given)
            raise self.unsupported(f"the setting {settings} is not supported; without it, the layer is")

    def _note(self, value: ir.Value) -> ir.Value:
        if value not in self.read:
            self.read.append(value)
        return value


Read = Callable[[DarknetLayer], "ir.Value"]
"""Writes a layer's nodes and returns its output."""


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Reader of a type of section."""

    read: Read


LAYERS: RuleTable[Read, LayerReader] = RuleTable(LayerReader)
"""The readers by Darknet's names of the type; ``netweave.formats.darknet.layers`` fills it."""

layer = LAYERS.register

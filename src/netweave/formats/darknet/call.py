"""What a layer's reader works with: its section and inputs, the arrays, and the graph to add to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.graph import Parameter, known_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnx_ir as ir

    from netweave.formats.darknet.config import Section
    from netweave.formats.darknet.weights import WeightFile
    from netweave.graph import GraphBuilder

_READERS: dict[str, Callable[[Call], ir.Value]] = {}

HEADS = frozenset({"yolo", "Gaussian_yolo", "region", "detection"})
"""Types whose output is an output of the net, wherever they stand."""


def layer(*types: str) -> Callable[[Callable[[Call], ir.Value]], Callable[[Call], ir.Value]]:
    """Register the decorated function for types of sections; the first is the type's usual name."""

    def register(read: Callable[[Call], ir.Value]) -> Callable[[Call], ir.Value]:
        _READERS.update(dict.fromkeys(types, read))
        return read

    return register


def find_layer(kind: str) -> Callable[[Call], ir.Value] | None:
    """Return the reader of a type of section, or None if there is none."""
    return _READERS.get(kind)


def all_layers() -> dict[str, Callable[[Call], ir.Value]]:
    """Return every reader by the type of section."""
    return dict(sorted(_READERS.items()))


class Call:
    """One layer while it is read.

    Args:
        section: Its section.
        index: Its number, from 0; ``[net]`` is not counted.
        key: Its key in the table of layers.
        input: What the layer before it made, or the net's input.
        outputs: What the layers before it made.
        builder: Where nodes are added.
        arrays: The stored arrays, or None without a file.

    Attributes:
        read: The values that were read, in order.
        parameters: Keys of the stored arrays that were taken.
    """

    def __init__(
        self,
        section: Section,
        *,
        index: int,
        key: str,
        input: ir.Value,  # noqa: A002
        outputs: Sequence[ir.Value],
        builder: GraphBuilder,
        arrays: WeightFile | None,
    ) -> None:
        self.section = section
        self.index = index
        self.key = key
        self.parameters: list[str] = []
        self.read: list[ir.Value] = []
        self._input = input
        self._outputs = outputs
        self._builder = builder
        self._arrays = arrays

    @property
    def input(self) -> ir.Value:
        """The output of the layer before."""
        self._note(self._input)
        return self._input

    @property
    def is_transposed(self) -> bool:
        """Whether the file stores the weights of dense layers as (inputs, outputs)."""
        return self._arrays is not None and self._arrays.transposed

    def other(self, number: int, setting: str) -> ir.Value:
        """Return the output of another layer: a number below 0 counts back from this layer.

        Raises:
            ReadError: There is no such layer before this one.
        """
        index = number + self.index if number < 0 else number
        if not 0 <= index < self.index:
            raise self.section.wrong(setting, f"layers before this one, which is number {self.index}")
        self._note(self._outputs[index])
        return self._outputs[index]

    def image(self, value: ir.Value) -> tuple[int, int, int]:
        """Return channels, height and width of a value.

        Raises:
            ReadError: It is no image: a dense layer's output, say.
        """
        shape = known_shape(value) or ()
        sizes = [size for size in shape[1:] if size is not None]
        if len(shape) != 4 or len(sizes) != 3:
            raise ReadError(
                f"needs an image, the layer before it gives {list(shape[1:])}", place=self.section.place
            )
        channels, height, width = sizes
        return channels, height, width

    def rows(self, value: ir.Value) -> ir.Value:
        """Return a value as one row for each picture, which is how Darknet's dense layers see it."""
        return value if len(known_shape(value) or ()) == 2 else self.add("Flatten", [value], {"axis": 1})

    def parameter(
        self,
        name: str,
        shape: Sequence[int],
        *,
        role: str,
        stored: Sequence[int] | None = None,
        layout: Sequence[tuple[str, tuple[int, ...]]] = (),
    ) -> ir.Value:
        """Take the next stored array and add it.

        Args:
            name: Darknet's name for it.
            shape: Its sizes in the file.
            role: See ``Parameter``.
            stored: Other sizes to take it in, before ``layout``; those of ``shape`` by default.
            layout: Steps from the file's layout to the one that the graph needs.
        """
        sizes = tuple(stored or shape)
        key = f"{self.key}/{name}"
        array = self._arrays.take(sizes, place=self.section.place, name=name) if self._arrays else None
        self.parameters.append(key)
        entry = Parameter(
            key,
            sizes,
            role=role,
            loaded=array is not None,
            trainable=role not in {"mean", "variance"},
        )
        return self._builder.parameter(entry, array, layout=layout)

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> ir.Value:
        """Add a node with one output and return the output."""
        return self._builder.add(op_type, inputs, attributes)

    def split(self, value: ir.Value, sizes: Sequence[int], *, axis: int) -> tuple[ir.Value, ...]:
        """Cut a value into pieces along an axis."""
        return self._builder.add_many(
            "Split", [value, self.wholes(sizes)], {"axis": axis}, outputs=[""] * len(sizes)
        )

    def constant(self, numbers: Any) -> ir.Value:
        """Return a float32 constant."""
        return self._builder.constant(numbers)

    def wholes(self, numbers: Sequence[int]) -> ir.Value:
        """Return a constant list of whole numbers: axes, sizes, indices."""
        return self._builder.constant(list(numbers), dtype=np.int64)

    def refuse(self, message: str) -> UnsupportedError:
        """Return the error for something that Netweave does not read."""
        return UnsupportedError(message, place=self.section.place)

    def refuse_if_set(self, *names: str) -> None:
        """Refuse settings that change what is computed in a way that is not read here.

        Raises:
            UnsupportedError: One of them is written with another value than 0.
        """
        found = [name for name in names if self.section.number(name, 0.0)]
        if found:
            settings = ", ".join(f"{name}={self.section.settings[name]}" for name in found)
            raise self.refuse(f"the setting {settings} is not read; without it the layer is")

    def wrong_shape(self, message: str) -> ShapeError:
        """Return the error for sizes that do not fit."""
        return ShapeError(message, place=self.section.place)

    def _note(self, value: ir.Value) -> None:
        if value not in self.read:
            self.read.append(value)

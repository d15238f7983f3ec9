"""One operator of TensorFlow while it is lowered: its attributes and its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.channels_last import ChannelsLastLayer, Stored, Tensor
from netweave.formats.tensorflow.operands import (
    Item,
    Open,
    Sizes,
    numbers_of,
)
from netweave.graph.budget import MAX_LISTED
from netweave.graph.parameters import apply_layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.formats.tensorflow.interpreter import Interpreter
    from netweave.formats.tensorflow.nodes import Node

Padding = str | list[int]

MAX_PIECES = 4_000
"""Nodes of their own that one node becomes at most: the steps of a loop, the tensors of a list."""


PADDINGS = ("SAME", "VALID", "EXPLICIT")


class TensorFlowOperation(ChannelsLastLayer):
    """One node of the net while it is lowered.

    Args:
        node: The node.
        inputs: What it reads.
        interpreter: Who reads; calls of functions go back to it.
        place: Where the node stands, for messages.
    """

    def __init__(self, node: Node, inputs: Sequence[Item], interpreter: Interpreter, place: str) -> None:
        super().__init__(interpreter.net, node.attributes, place=place)
        self.node = node
        self.op = node.op
        self.inputs = inputs
        self.interpreter = interpreter

    @property
    def x(self) -> Tensor | Stored:
        """The first input."""
        return self.operand()

    # Attributes.

    attribute = ChannelsLastLayer.setting
    """As TensorFlow calls its settings."""

    def string(self, name: str, default: str) -> str:
        """Return an attribute that is a string."""
        value = self.attribute(name, default)
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

    def is_last(self) -> bool:
        """Return whether the node has the channels on the last axis."""
        return self.string("data_format", "NHWC").upper() in {"NHWC", "NDHWC", "NWC"}

    @property
    def channel_axis(self) -> int:
        """The axis of the channels."""
        return -1 if self.is_last() else 1

    def spatial(self, name: str, *, last: bool, of: int = 0) -> list[int]:
        """Return an attribute with a number for each axis, without batch and channels; 1 where it is missing.

        Args:
            name: The attribute.
            last: Whether the channels are on the last axis.
            of: Which input the axes are of.
        """
        values = self.integer_list(name, ())
        if not values:
            return [1] * (self.rank(self.operand(of)) - 2)
        if values[0] != 1 or values[-1 if last else 1] != 1:
            raise self.unsupported(f"{name}={values}: a step over the batch or the channels is not supported")
        return values[1:-1] if last else values[2:]

    def padding(self, *, last: bool) -> Padding:
        """Return ``SAME``, ``VALID`` or the pads: all begins, then all ends."""
        padding = self.string("padding", "VALID")
        if padding not in PADDINGS:
            raise self.setting_error("padding", f"one of {', '.join(PADDINGS)}")
        if padding != "EXPLICIT":
            return padding
        pads = self.integer_list("explicit_paddings", ())
        spatial = slice(1, -1) if last else slice(2, None)
        return [*pads[0::2][spatial], *pads[1::2][spatial]]

    # Inputs.

    def item(self, index: int) -> Item:
        """Return an input as it is.

        Raises:
            ReadError: There is no such input.
        """
        if not -len(self.inputs) <= index < len(self.inputs):
            raise self.read_error(f"has {len(self.inputs)} inputs, but number {index + 1} is needed")
        return self.inputs[index]

    def operand(self, index: int = 0) -> Tensor | Stored:
        """Return an input that is a tensor or a stored array; numbers become a tensor."""
        return self._operand(self.item(index))

    def operands(self, start: int = 0, stop: int | None = None) -> list[Tensor | Stored]:
        """Return inputs that are tensors or stored arrays."""
        return [self._operand(item) for item in self.inputs[start:stop]]

    def _operand(self, item: Item) -> Tensor | Stored:
        if isinstance(item, (Tensor, Stored)):
            return item
        if isinstance(item, Sizes):
            return Tensor(self.written(item))
        raise self.unsupported(f"reads {_kind_of(item)}, expected a tensor")

    def constant_input(self, index: int, what: str) -> np.ndarray:
        """Return an input that is a constant of the net, all of it known.

        Args:
            index: Which input.
            what: What it is, for a message.

        Raises:
            UnsupportedError: It is computed while the net runs, or depends on an open size.
        """
        item = self.item(index)
        if not isinstance(item, Stored) or item.array is None:
            why = (
                f"it depends on sizes that are not known; {self.give_sizes()}"
                if isinstance(item, Sizes)
                else "it is computed while the net runs, which is not supported"
            )
            raise self.unsupported(f"{what} must be known: {why}")
        return apply_layout(item.array, item.steps)

    def integers_input(self, index: int, what: str) -> list[int]:
        """Return an input that is a constant list of integers, or one.

        Raises:
            UnsupportedError: It is not known, or longer than any list of axes, sizes or settings.
        """
        return [int(number) for number in self._listed(self.constant_input(index, what), what)]

    def integer_input(self, index: int, what: str) -> int:
        """Return an input that is a constant integer.

        Raises:
            UnsupportedError: It is not known, or is no number at all.
        """
        numbers = self.integers_input(index, what)
        if not numbers:
            raise self.unsupported(f"{what} is an empty list, expected a number")
        return numbers[0]

    def sizes_input(self, index: int, what: str) -> list[int | None]:
        """Return an input that is a list of integers, None for those that are open."""
        numbers = numbers_of(self.item(index))
        if numbers is None:
            return list(self.integers_input(index, what))
        return [None if isinstance(number, Open) else int(number) for number in self._listed(numbers, what)]

    def _listed(self, numbers: np.ndarray, what: str) -> np.ndarray:
        if numbers.size > MAX_LISTED:
            raise self.unsupported(
                f"{what} has {numbers.size:,} numbers, at most {MAX_LISTED:,} are supported"
            )
        return numbers.reshape(-1)

    def few(self, count: int) -> int:
        """Return a number of tensors that are written one by one.

        Raises:
            UnsupportedError: There are too many of them.
        """
        if not 0 <= count <= MAX_PIECES:
            raise self.unsupported(f"has {count:,} tensors as outputs, at most {MAX_PIECES:,} are supported")
        self.interpreter.spend(count, self.place)
        return count

    def written(self, sizes: Sizes) -> ir.Value:
        """Return numbers as a value that is computed while the net runs.

        Raises:
            UnsupportedError: One of them follows from an open size by a formula.
        """
        parts = []
        for number in self._listed(sizes.numbers, "a list of sizes"):
            if not isinstance(number, Open):
                parts.append(self.integers([int(number)]))
            elif number.value is not None:
                ends = {"start": number.axis, "end": number.axis + 1}
                parts.append(self.add("Shape", [number.value], ends))
            else:
                raise self.unsupported(f"reads a number that depends on an unknown size; {self.give_sizes()}")
        joined = self.add("Concat", parts, {"axis": 0}) if len(parts) > 1 else parts[0]
        return joined if sizes.numbers.ndim == 1 else self.reshape(joined, sizes.numbers.shape)

    def run(self, function: str, inputs: Sequence[Item]) -> list[Item]:
        """Read a function of the net with these arguments and return what it gives."""
        return self.interpreter.call(function, inputs, self.place)


def _kind_of(item: Item) -> str:
    return {
        "Handle": "a variable itself",
        "Dead": "a branch that is not taken",
        "Saved": "a checkpoint",
        "TensorList": "a list of tensors",
    }.get(type(item).__name__, "something else")

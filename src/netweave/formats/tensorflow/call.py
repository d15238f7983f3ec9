"""What an operator's reader works with: the node's attributes and inputs, and the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError
from netweave.files.channels_last import Operand, Stored, Tensor, Writer
from netweave.formats.tensorflow.operands import (
    Item,
    Open,
    Sizes,
    constant_of,
    numbers_of,
)
from netweave.graph.budget import MAX_LISTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.errors import ShapeError, UnsupportedError
    from netweave.formats.tensorflow.interpreter import Interpreter
    from netweave.formats.tensorflow.nodes import Node

Padding = str | list[int]

MAX_PIECES = 4_000
"""Nodes of their own that one node becomes at most: the steps of a loop, the tensors of a list."""


class Call:
    """One node of the net while it is read.

    Args:
        node: The node.
        inputs: What it reads.
        interpreter: Who reads; calls of functions go back to it.
        place: Where the node stands, for messages.
    """

    def __init__(self, node: Node, inputs: Sequence[Item], interpreter: Interpreter, place: str) -> None:
        self.node = node
        self.op = node.op
        self.inputs = inputs
        self.interpreter = interpreter
        self.place = place

    @property
    def writer(self) -> Writer:
        """Where nodes are added."""
        return self.interpreter.writer

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; TensorFlow leaves out those that have their default."""
        value = self.node.attributes.get(name)
        return default if value is None else value

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a word."""
        value = self.attribute(name, default)
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

    def real(self, name: str, default: float) -> float:
        """Return an attribute that is a number.

        Raises:
            ReadError: It is something else.
        """
        value = self.attribute(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ReadError(f"its {name!r} is {value!r:.60}, expected a number", place=self.place)
        return float(value)

    def whole(self, name: str, default: int) -> int:
        """Return an attribute that is a whole number.

        Raises:
            ReadError: It is something else.
        """
        value = self.attribute(name, default)
        if not isinstance(value, int):
            raise ReadError(f"its {name!r} is {value!r:.60}, expected a whole number", place=self.place)
        return int(value)

    def numbers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return an attribute that is a list of whole numbers.

        Raises:
            ReadError: It is something else.
        """
        value = self.attribute(name, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, int) for item in value):
            raise ReadError(
                f"its {name!r} is {value!r:.60}, expected a list of whole numbers", place=self.place
            )
        return [int(item) for item in value]

    def item(self, index: int) -> Item:
        """Return an input as it is.

        Raises:
            ReadError: There is no such input.
        """
        if not -len(self.inputs) <= index < len(self.inputs):
            raise ReadError(
                f"has {len(self.inputs)} inputs, of which number {index + 1} is needed", place=self.place
            )
        return self.inputs[index]

    def operand(self, index: int = 0) -> Operand:
        """Return an input that is a tensor or a stored array; numbers become a tensor."""
        return self._operand(self.item(index))

    def operands(self, start: int = 0, stop: int | None = None) -> list[Operand]:
        """Return inputs that are tensors or stored arrays."""
        return [self._operand(item) for item in self.inputs[start:stop]]

    def _operand(self, item: Item) -> Operand:
        if isinstance(item, (Tensor, Stored)):
            return item
        if isinstance(item, Sizes):
            return Tensor(self.written(item))
        raise self.refuse(f"reads {_words(item)}, expected a tensor")

    def constant(self, index: int, what: str) -> np.ndarray:
        """Return an input that is a constant of the net, all of it known.

        Args:
            index: Which input.
            what: What it is, for a message.

        Raises:
            UnsupportedError: It is computed while the net runs, or depends on an open size.
        """
        item = self.item(index)
        found = constant_of(item)
        if found is None and isinstance(item, Stored):
            found = item.array
        if found is None:
            why = (
                "it depends on sizes that are not known; give the sizes of the net's inputs, as in "
                "--input-shape image=1x224x224x3"
                if isinstance(item, Sizes)
                else "it is computed while the net runs, which is not read"
            )
            raise self.refuse(f"{what} must be known: {why}")
        return found

    def integers(self, index: int, what: str) -> list[int]:
        """Return an input that is a constant list of whole numbers, or one.

        Raises:
            UnsupportedError: It is not known, or longer than any list of axes, sizes or settings.
        """
        return [int(number) for number in self._listed(self.constant(index, what), what)]

    def integer(self, index: int, what: str) -> int:
        """Return an input that is a constant whole number.

        Raises:
            UnsupportedError: It is not known, or is no number at all.
        """
        found = self.integers(index, what)
        if not found:
            raise self.refuse(f"{what} is an empty list, expected a number")
        return found[0]

    def sizes(self, index: int, what: str) -> list[int | None]:
        """Return an input that is a list of whole numbers, None for those that are open."""
        found = numbers_of(self.item(index))
        if found is None:
            return list(self.integers(index, what))
        return [None if isinstance(number, Open) else int(number) for number in self._listed(found, what)]

    def _listed(self, numbers: np.ndarray, what: str) -> np.ndarray:
        if numbers.size > MAX_LISTED:
            raise self.refuse(f"{what} has {numbers.size:,} numbers, at most {MAX_LISTED:,} are read")
        return numbers.reshape(-1)

    def shape(self, x: Operand) -> tuple[int | None, ...]:
        """Return the sizes of an operand in the source's order, None for an open one."""
        return self.writer.shape(x)

    def is_last(self) -> bool:
        """Whether the node has the channels on the last axis."""
        return self.text("data_format", "NHWC").upper() in {"NHWC", "NDHWC", "NWC"}

    def spatial(self, name: str, *, last: bool, of: int = 0) -> list[int]:
        """Return an attribute with a number for each axis, without batch and channels; 1 where it is missing.

        Args:
            name: The attribute.
            last: Whether the channels are on the last axis.
            of: Which input the axes are of.
        """
        values = self.numbers(name)
        if not values:
            return [1] * (len(self.shape(self.operand(of))) - 2)
        if values[0] != 1 or values[-1 if last else 1] != 1:
            raise self.refuse(f"{name}={values}: a step over the batch or the channels is not read")
        return values[1:-1] if last else values[2:]

    def padding(self, *, last: bool) -> Padding:
        """Return ``SAME``, ``VALID`` or the pads: all begins, then all ends."""
        padding = self.text("padding", "VALID")
        if padding != "EXPLICIT":
            return padding
        given = self.numbers("explicit_paddings")
        pairs = [(given[i], given[i + 1]) for i in range(0, len(given) - 1, 2)]
        chosen = pairs[1:-1] if last else pairs[2:]
        return [begin for begin, _ in chosen] + [end for _, end in chosen]

    def few(self, count: int) -> int:
        """Return a number of tensors that are written one by one.

        Raises:
            UnsupportedError: There are too many of them.
        """
        if not 0 <= count <= MAX_PIECES:
            raise self.refuse(f"makes {count:,} tensors, at most {MAX_PIECES:,} are read")
        self.interpreter.spend(count, self.place)
        return count

    def written(self, sizes: Sizes) -> ir.Value:
        """Return numbers as a value that is computed while the net runs.

        Raises:
            UnsupportedError: One of them follows from an open size by a formula.
        """
        writer = self.writer
        parts = []
        for number in self._listed(sizes.numbers, "a list of sizes"):
            if not isinstance(number, Open):
                parts.append(writer.integers([int(number)]))
            elif number.value is not None:
                ends = {"start": number.axis, "end": number.axis + 1}
                parts.append(writer.add("Shape", [number.value], ends))
            else:
                raise self.refuse(
                    "reads a number that follows from an open size; give the sizes of the net's inputs, "
                    "as in --input-shape image=1x224x224x3"
                )
        joined = writer.add("Concat", parts, {"axis": 0}) if len(parts) > 1 else parts[0]
        if sizes.numbers.ndim != 1:
            joined = writer.add("Reshape", [joined, writer.integers(sizes.numbers.shape)])
        return joined

    def run(self, function: str, inputs: Sequence[Item]) -> list[Item]:
        """Read a function of the net with these arguments and return what it gives."""
        return self.interpreter.call(function, inputs, self.place)

    def wrong(self, message: str) -> ShapeError:
        """Return the error for sizes that do not fit."""
        error = self.writer.wrong(message)
        return type(error)(message, place=self.place)

    def refuse(self, message: str) -> UnsupportedError:
        """Return the error for something that Netweave does not read."""
        error = self.writer.refuse(message)
        return type(error)(message, place=self.place)


def _words(item: Item) -> str:
    return {
        "Handle": "a variable itself",
        "Dead": "a branch that is not taken",
        "Saved": "a checkpoint",
        "TensorList": "a list of tensors",
    }.get(type(item).__name__, "something else")

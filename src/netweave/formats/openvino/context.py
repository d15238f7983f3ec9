"""Context of OpenVINO's operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering import RuleTable
from netweave.formats.lowering.channels_last import ChannelsLastLayer, ChannelsLastNet, Operand, Stored
from netweave.formats.lowering.windows import Window
from netweave.graph.costs import MAX_LISTED
from netweave.graph.parameters import apply_layout

if TYPE_CHECKING:
    from netweave.formats.openvino.document import IRLayer


_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?|nan", re.IGNORECASE)

SAME = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}
"""Paddings that follow from sizes, and ONNX's names."""


class OpenVINOOperation(ChannelsLastLayer):
    """One layer of the net while it is lowered.

    OpenVINO has channels first as the Graph has them, so that no tensor's order differs from the source's;
    the base class gives settings, stored arrays and nodes.

    Args:
        net: What the layers of the net share.
        layer: The layer as the file has it.
        inputs: What it reads.
        place: Where it stands, for messages.
    """

    input_shape_example = "image=1x3x224x224"

    def __init__(
        self, net: ChannelsLastNet, layer: IRLayer, inputs: Sequence[Operand], *, place: str
    ) -> None:
        super().__init__(net, layer.settings, place=place)
        self.source_layer = layer
        self.op = layer.type
        self.inputs = inputs

    @property
    def x(self) -> Operand:
        """The first input."""
        return self.operand()

    # Settings.

    def text(self, name: str, default: str) -> str:
        """Return a setting as it is written, in lower case."""
        return str(self.setting(name, default)).lower()

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a setting that is true or false."""
        value = self.text(name, str(default))
        if value not in {"true", "false", "1", "0"}:
            raise self.setting_error(name, "true or false")
        return value in {"true", "1"}

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a setting that is an integer; one without a default must be there."""
        value = str(self.setting(name, "" if default is None else default))
        if not _INTEGER.fullmatch(value):
            raise self.setting_error(name, "an integer")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a setting that is a number; one without a default must be there."""
        value = str(self.setting(name, "" if default is None else default))
        if not _NUMBER.fullmatch(value):
            raise self.setting_error(name, "a number")
        return float(value)

    def integer_list(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return a setting that is a list of integers."""
        value = str(self.setting(name, ""))
        if not value.strip():
            return list(default)
        items = [item.strip() for item in value.split(",")]
        if len(items) > MAX_LISTED or not all(map(_INTEGER.fullmatch, items)):
            raise self.setting_error(name, "integers")
        return [int(item) for item in items]

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """Return a setting that is one of some words.

        Raises:
            UnsupportedError: It is another one.
        """
        value = self.text(name, default)
        if value not in known:
            raise self.unsupported(f"{name}={value!r:.40} is not supported, expected {' or '.join(known)}")
        return value

    # Inputs.

    def operand(self, index: int = 0) -> Operand:
        """Return an input.

        Raises:
            ReadError: There is no such input.
        """
        if index >= len(self.inputs):
            raise self.read_error(f"has {len(self.inputs)} inputs, but number {index + 1} is needed")
        return self.inputs[index]

    def optional(self, index: int) -> Operand | None:
        """Return an input that may be left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def known(self, index: int, what: str) -> np.ndarray:
        """Return an input that is a constant.

        Args:
            index: Which input.
            what: What it is, for a message.

        Raises:
            UnsupportedError: It is computed while the net runs.
        """
        array = constant_of(self.operand(index))
        if array is None:
            raise self.unsupported(f"{what} must be known, but it is computed while the net runs")
        return array

    def integers_input(self, index: int, what: str) -> list[int]:
        """Return an input that is a constant list of integers, or one."""
        array = self.known(index, what).reshape(-1)
        if array.size > MAX_LISTED:
            raise self.unsupported(f"{what} has {array.size:,} numbers, at most {MAX_LISTED:,} are supported")
        if array.dtype.kind not in "iub":
            raise self.read_error(f"{what} has elements of type {array.dtype.name}, expected integers")
        return [int(number) for number in array]

    def integer_input(self, index: int, what: str) -> int:
        """Return an input that is a constant integer."""
        numbers = self.integers_input(index, what)
        if len(numbers) != 1:
            raise self.read_error(f"{what} has {len(numbers)} numbers, expected one")
        return numbers[0]

    def number_input(self, index: int, what: str) -> float:
        """Return an input that is a constant number."""
        array = self.known(index, what).reshape(-1)
        if array.size != 1:
            raise self.read_error(f"{what} has {array.size} numbers, expected one")
        return float(array[0])

    # Windows.

    def window(self, kernel: Sequence[int], *, is_pooling: bool = False) -> Window:
        """Return how a window of some sizes moves, checked."""
        rank = len(kernel)
        lists = [
            self.integer_list(name, [default] * rank)
            for name, default in (("strides", 1), ("pads_begin", 0), ("pads_end", 0), ("dilations", 1))
        ]
        if any(len(values) != rank for values in lists):
            raise self.read_error(f"has {[len(values) for values in lists]} numbers for {rank} axes")
        strides, begins, ends, dilations = lists
        if self.auto_pad is not None or self.text("auto_pad", "explicit") == "valid":
            begins, ends = [0] * rank, [0] * rank
        window = Window(kernel, strides, begins, ends, dilations)
        window.check(self, is_pooling=is_pooling)
        if self.auto_pad is None:
            window.check_fits(self, self.shape(self.x)[2:])
        return window

    @property
    def auto_pad(self) -> str | None:
        """ONNX's name of a padding that follows from sizes; None for one that is given."""
        return SAME.get(self.choice("auto_pad", ("explicit", "notset", "valid", *SAME), "explicit"))


def constant_of(x: Operand | None) -> np.ndarray | None:
    """Return the numbers of what the file stores; None for what is computed."""
    if not isinstance(x, Stored) or x.array is None:
        return None
    return np.asarray(apply_layout(x.array, x.steps))


Read = Callable[["OpenVINOOperation"], "Operand | Sequence[Operand]"]


@dataclass(frozen=True, slots=True)
class OperatorReader:
    """Reader of an operator type.

    Attributes:
        read: Adds its nodes and returns its outputs.
    """

    read: Read


READERS: RuleTable[Read, OperatorReader] = RuleTable(OperatorReader)
"""The readers by the operator's name."""

operator_reader = READERS.register

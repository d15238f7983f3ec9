"""The table of TensorFlow's operators: one reader function each, in ``operators/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.formats.tensorflow.operands import Item

Read = Callable[["TensorFlowOperation"], "Item | Sequence[Item]"]


@dataclass(frozen=True, slots=True)
class OperatorReader:
    """How an operator is read.

    Attributes:
        read: Adds its nodes and returns its outputs.
        plain: Whether it computes nothing that a net should show: a constant, a copy, control flow.
    """

    read: Read
    plain: bool = False


_READERS: dict[str, OperatorReader] = {}


def operator_reader(*names: str, plain: bool = False) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of an operator.

    Args:
        names: The operator's name, and those that do the same.
        plain: See ``OperatorReader``.
    """

    def register(read: Read) -> Read:
        _READERS.update(dict.fromkeys(names, OperatorReader(read, plain)))
        return read

    return register


def find_reader(op: str) -> OperatorReader | None:
    """Return the reader of an operator, or None if there is none."""
    return _READERS.get(op)


def all_readers() -> dict[str, OperatorReader]:
    """Return every reader by the operator's name."""
    return dict(sorted(_READERS.items()))

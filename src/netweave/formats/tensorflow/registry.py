"""The table of TensorFlow's operators: one reader function each, in ``operators/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.formats.lowering import RuleTable

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.formats.tensorflow.operands import Item

Read = Callable[["TensorFlowOperation"], "Item | Sequence[Item]"]


@dataclass(frozen=True, slots=True)
class OperatorReader:
    """Reader of an operator type.

    Attributes:
        read: Adds its nodes and returns its outputs.
        plain: Whether it computes nothing that a net should show: a constant, a copy, control flow.
    """

    read: Read
    plain: bool = False


READERS: RuleTable[Read, OperatorReader] = RuleTable(OperatorReader)
"""The readers by the operator's name."""

operator_reader = READERS.register

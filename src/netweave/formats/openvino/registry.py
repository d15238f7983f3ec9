"""The table of OpenVINO's operators: one function each, in ``operators/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.formats.lowering import RuleTable

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last import Operand
    from netweave.formats.openvino.context import OpenVINOOperation

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

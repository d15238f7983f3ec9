"""The table of TFLite's operators: one function each, in ``operators/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from netweave.formats.lowering import RuleTable
from netweave.formats.tensorflow.nodes import OperatorReader
from netweave.formats.tensorflow.operands import Item

if TYPE_CHECKING:
    from netweave.formats.tensorflow.lite.context import LiteOperator

Read = Callable[["LiteOperator"], "Item | Sequence[Item]"]


def _entry(function: Read, *, plain: bool = False, moves: bool = False) -> OperatorReader:
    """Return how an operator is read.

    Args:
        function: Adds its nodes and returns its outputs.
        plain: Whether it computes nothing that a net should show.
        moves: Whether it gives elements of its input as they are, so that equal scales need no rounding.
    """
    return OperatorReader(partial(_finished, function, moves=moves), plain)


def _finished(function: Read, ctx: Any, *, moves: bool) -> list[Item]:
    items = function(ctx)
    finished: list[Item] = ctx.finished([items] if isinstance(items, Item) else list(items), moves=moves)
    return finished


LITE_READERS: RuleTable[Read, OperatorReader] = RuleTable(_entry)
"""How operators are read, by TFLite's name."""

lite_operator = LITE_READERS.register

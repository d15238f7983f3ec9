"""State that the layers of one net with channels last share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from netweave.formats.lowering.parameters import ParameterStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.graph import GraphBuilder

AxisOrder = Callable[[int], tuple[int, ...]]
"""``to_first`` or ``to_last``: the order of the axes by their number."""


class ChannelsLastNet:
    """The stored arrays of a net, and its values in either order of axes, each made once.

    Args:
        builder: Where nodes are added.
        reserved: Names that only the net's outputs may have.
    """

    def __init__(self, builder: GraphBuilder, *, reserved: Sequence[str] = ()) -> None:
        self.builder = builder
        self.parameters = ParameterStore(builder)
        self.reserved = frozenset(reserved)
        self.transposed: dict[tuple[ir.Value, AxisOrder], ir.Value] = {}
        builder.reserve(reserved)

"""The table of traps: known ways in which two nets that should be the same differ.

To add one: write a function ``(case) -> Iterator[Proposal]`` in the file of its family (or a new file) and
add it to ``TRAPS``. A proposal says what differs and how to change B; it is tried on A's real inputs and
reported only if B's nodes then do what A's do. A trap must propose nothing where nothing differs.
"""

from netweave.comparison.explain.traps.attributes import attribute_traps
from netweave.comparison.explain.traps.behind import scaling_behind_traps
from netweave.comparison.explain.traps.constants import constant_traps
from netweave.comparison.explain.traps.folded import folded_traps
from netweave.comparison.explain.traps.functions import function_traps
from netweave.comparison.explain.traps.gates import gate_traps
from netweave.comparison.explain.traps.groups import group_traps
from netweave.comparison.explain.traps.operators import input_order_traps, operator_traps
from netweave.comparison.explain.traps.softmax import softmax_traps
from netweave.comparison.explain.traps.trap import Case, Proposal, Trap

TRAPS: tuple[Trap, ...] = (
    attribute_traps,
    softmax_traps,
    group_traps,
    gate_traps,
    constant_traps,
    folded_traps,
    scaling_behind_traps,
    input_order_traps,
    operator_traps,
    function_traps,
)

__all__ = ["TRAPS", "Case", "Proposal", "Trap"]

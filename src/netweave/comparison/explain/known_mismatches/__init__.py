"""The table of known mismatches: ways in which two nets that should be the same often differ.

To add one: write a function ``(case) -> Iterator[Proposal]`` in the file of its family (or a new file) and
add it to ``KNOWN_MISMATCHES``. A proposal says what differs and how to change B; it is tried on A's real
inputs and reported only if B's nodes then do what A's do. Where nothing differs, nothing must be proposed.
"""

from netweave.comparison.explain.known_mismatches.attention import (
    centring_mismatches,
    exchanged_mismatches,
    mask_mismatches,
    norm_mismatches,
    position_mismatches,
    repeat_mismatches,
    rotary_mismatches,
    variance_mismatches,
)
from netweave.comparison.explain.known_mismatches.attributes import attribute_mismatches
from netweave.comparison.explain.known_mismatches.constants import bias_mismatches, constant_mismatches
from netweave.comparison.explain.known_mismatches.folded import folded_mismatches
from netweave.comparison.explain.known_mismatches.mismatch import Case, KnownMismatch, Proposal
from netweave.comparison.explain.known_mismatches.operators import (
    function_mismatches,
    input_order_mismatches,
    operator_mismatches,
)
from netweave.comparison.explain.known_mismatches.order import group_mismatches, scaling_behind_mismatches
from netweave.comparison.explain.known_mismatches.recurrent import gate_mismatches, softmax_mismatches
from netweave.comparison.explain.known_mismatches.views import view_mismatches
from netweave.comparison.explain.known_mismatches.windows import pool_padding_mismatches, resize_mismatches

KNOWN_MISMATCHES: tuple[KnownMismatch, ...] = (
    mask_mismatches,
    exchanged_mismatches,
    attribute_mismatches,
    pool_padding_mismatches,
    resize_mismatches,
    norm_mismatches,
    variance_mismatches,
    centring_mismatches,
    position_mismatches,
    repeat_mismatches,
    rotary_mismatches,
    softmax_mismatches,
    group_mismatches,
    gate_mismatches,
    constant_mismatches,
    bias_mismatches,
    folded_mismatches,
    scaling_behind_mismatches,
    input_order_mismatches,
    operator_mismatches,
    function_mismatches,
    view_mismatches,
)

__all__ = ["KNOWN_MISMATCHES", "Case", "KnownMismatch", "Proposal"]

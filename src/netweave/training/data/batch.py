"""The arrays of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from netweave.runtime.engine import Variable


@dataclass(frozen=True, slots=True)
class Batch:
    """The arrays of one batch; they are used again after the next batch was asked for.

    Attributes:
        number: Which one, from 0 over all epochs.
        epoch: The epoch that it begins in, from 0.
        padding: How many records at its end are only there to fill it.
        arrays: By the name of the graph's input. Images are (N, C, H, W), their channels side by side in
            memory; ``torch.from_numpy`` takes that over as channels-last.
        variables: What engine tasks that read the arrays must name; the arrays are not used again before
            these are done.
        count: How many records it has.
        offset: Place of its first record in the whole batch, of which it may be a share.
    """

    number: int
    epoch: int
    padding: int
    arrays: Mapping[str, np.ndarray]
    variables: tuple[Variable, ...]
    count: int = 0
    offset: int = 0

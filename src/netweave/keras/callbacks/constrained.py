"""Constraints as a callback: after each update arrays are brought back to where they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.keras.callbacks.base import Callback, Logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.keras.variable import Variable


class Constrained(Callback):
    """Brings arrays back into their constraints.

    Args:
        rows: The arrays, each with its constraint.
    """

    def __init__(self, rows: Sequence[tuple[Variable, Any]]) -> None:
        super().__init__()
        self._rows = list(rows)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Bring all arrays back."""
        for variable, constraint in self._rows:
            variable.assign(constraint(variable.numpy()))

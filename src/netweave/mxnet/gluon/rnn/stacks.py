"""Cells of several cells: one above the other, and one in each direction."""

from __future__ import annotations

from typing import Any

from netweave.errors import UsageError
from netweave.mxnet.gluon.rnn import sequences
from netweave.mxnet.gluon.rnn.cells import HybridRecurrentCell, RecurrentCell, States


class _Cells(HybridRecurrentCell):
    """Several cells, whose states lie one behind the other."""

    @property
    def cells(self) -> list[RecurrentCell]:
        """Its cells."""
        return [one for one in self._children.values() if isinstance(one, RecurrentCell)]

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return sizes and layouts of the states of all cells."""
        return [info for cell in self.cells for info in cell.state_info(batch_size)]

    def begin_state(self, *args: Any, **kwargs: Any) -> States:
        """Return the states of before the first step, of all cells."""
        self._require_unmodified()
        return [state for cell in self.cells for state in cell.begin_state(*args, **kwargs)]

    def _shares(self, states: States) -> list[States]:
        found, start = [], 0
        for cell in self.cells:
            stop = start + len(cell.state_info())
            found.append(list(states[start:stop]))
            start = stop
        return found


class HybridSequentialRNNCell(_Cells):
    """Cells one above the other."""

    alias = "hybridsequentialrnncell"

    def add(self, cell: RecurrentCell) -> None:
        """Add a cell on top."""
        self.register_child(cell)

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, number: int) -> Any:
        return self.cells[number]

    def forward(self, x: Any, *args: Any) -> Any:
        """Return output and states after one step."""
        following: States = []
        for cell, own in zip(self.cells, self._shares(args[0]), strict=True):
            x, after = cell(x, own)
            following += after
        return x, following

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps, cell by cell."""
        self.reset()
        states = self._first_states(begin_state, inputs, layout)
        following: States = []
        for number, (cell, own) in enumerate(zip(self.cells, self._shares(states), strict=True), 1):
            merge = merge_outputs if number == len(self.cells) else None
            inputs, after = cell.unroll(length, inputs, own, layout, merge, valid_length)
            following += after
        return inputs, following


class SequentialRNNCell(HybridSequentialRNNCell):
    """Cells one above the other, which may be any blocks."""

    alias = "sequentialrnncell"


class BidirectionalCell(_Cells):
    """A cell that goes forwards and one that goes backwards, whose outputs are joined.

    Args:
        l_cell: The one that goes forwards.
        r_cell: The one that goes backwards.
        output_prefix: As MXNet has it.
    """

    def __init__(self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Not offered: one direction needs all steps.

        Raises:
            UsageError: Always.
        """
        raise UsageError("a BidirectionalCell has no single steps; call unroll()")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps."""
        self.reset()
        axis = layout.find("T")
        states = self._first_states(begin_state, inputs, layout)
        steps = sequences.split(inputs, length, axis)
        forwards, backwards = self.cells
        first, second = self._shares(states)
        left, left_states = forwards.unroll(length, steps, first, layout, False, valid_length)
        turned = sequences.reverse(steps, valid_length)
        right, right_states = backwards.unroll(length, turned, second, layout, False, valid_length)
        right = sequences.reverse(right, valid_length)
        F = sequences.operators_of(steps)
        outputs: Any = [F.concat(one, other, dim=1) for one, other in zip(left, right, strict=True)]
        if valid_length is not None:
            outputs = sequences.mask(outputs, valid_length, axis)
        return self._as_asked(outputs, length, axis, merge_outputs), left_states + right_states

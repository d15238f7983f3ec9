"""Cells that change what another cell takes or gives."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.gluon.rnn import sequences
from netweave.mxnet.gluon.rnn.cells import HybridRecurrentCell, RecurrentCell, States
from netweave.mxnet.gluon.rnn.stacks import BidirectionalCell

if TYPE_CHECKING:
    from collections.abc import Iterator


class DropoutCell(HybridRecurrentCell):
    """Drops a share of the input.

    Args:
        rate: The share.
        axes: Axes along which the same elements are dropped.
        kwargs: ``prefix`` and ``params``.
    """

    alias = "dropout"

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return that it has no states."""
        return []

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return output and states after one step."""
        return (F.Dropout(x, p=self._rate, axes=self._axes) if self._rate > 0 else x), args[0]


class ModifierCell(HybridRecurrentCell):
    """A cell around another one, which is not called by itself any more.

    Args:
        base_cell: The other one.

    Raises:
        UsageError: That is modified already.
    """

    def __init__(self, base_cell: RecurrentCell) -> None:
        if base_cell._modified:
            raise UsageError(f"{base_cell.name} is modified already; modify the cell around it")
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self.alias, params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        """Parameters of the other cell."""
        return self.base_cell.params

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Let the other cell be called by itself in a ``with`` block."""
        self.base_cell._modified = False
        try:
            yield
        finally:
            self.base_cell._modified = True

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return sizes and layouts of the states of the other cell."""
        return self.base_cell.state_info(batch_size)

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> States:
        """Return the states of before the first step, of the other cell."""
        self._require_unmodified()
        with self._released():
            return self.base_cell.begin_state(batch_size, func, **kwargs)


class ZoneoutCell(ModifierCell):
    """Keeps a share of outputs and states as they were the step before.

    Args:
        base_cell: The other cell.
        zoneout_outputs: Share of the outputs.
        zoneout_states: Share of the states.

    Raises:
        UsageError: The other cell goes both ways.
    """

    alias = "zoneout"

    def __init__(
        self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        if isinstance(base_cell, BidirectionalCell):
            raise UsageError("a BidirectionalCell has no single steps; modify the cells in it")
        super().__init__(base_cell)
        self._shares = zoneout_outputs, zoneout_states
        self._before: Any = None

    def reset(self) -> None:
        """Forget the output of the step before."""
        super().reset()
        self._before = None

    def forward(self, x: Any, *args: Any) -> Any:
        """Return output and states after one step."""
        F = sequences.operators_of(x)
        output, following = self.base_cell(x, args[0])

        def mixed(share: float, new: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(new), p=share), new, old) if share else new

        of_output, of_states = self._shares
        before = F.zeros_like(output) if self._before is None else self._before
        self._before = mixed(of_output, output, before)
        return self._before, [mixed(of_states, new, old) for new, old in zip(following, args[0], strict=True)]


class ResidualCell(ModifierCell):
    """Adds its input to the output of another cell.

    Args:
        base_cell: The other cell.
    """

    alias = "residual"

    def forward(self, x: Any, *args: Any) -> Any:
        """Return output and states after one step."""
        output, following = self.base_cell(x, args[0])
        return output + x, following

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
        with self._released():
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, True, valid_length)
        own = sequences.join(inputs, axis)
        outputs = outputs + (own if valid_length is None else sequences.mask(own, valid_length, axis))
        return self._as_asked(outputs, length, axis, merge_outputs), states

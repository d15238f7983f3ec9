"""Cells around cells: dropout, zoneout, residuals, and both directions."""

from __future__ import annotations

from typing import Any

from netweave.errors import UsageError
from netweave.mxnet import symbol as sym
from netweave.mxnet.rnn.cells import BaseRNNCell, RNNParams, States, merged, split_steps


class DropoutCell(BaseRNNCell):
    """Drops elements of its input; has no state.

    Args:
        dropout: Share of elements.
        prefix: What its name begins with.
        params: As for all cells.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """There are no states."""
        return []

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        return (sym.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(
        self,
        length: int,
        inputs: Any = None,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        input_prefix: str = "",
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps."""
        self.reset()
        if not isinstance(inputs, list | tuple) and inputs is not None and len(inputs) == 1:
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs, input_prefix)


class ModifierCell(BaseRNNCell):
    """A cell around another one, with that one's states and variables.

    Args:
        base_cell: The cell.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """The variables of the cell."""
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of the states of the cell."""
        return self.base_cell.state_info

    def begin_state(self, func: Any = sym.zeros, **kwargs: Any) -> States:
        """Return the states of before the first step."""
        self.base_cell._modified = False
        states = self.base_cell.begin_state(func=func, **kwargs)
        self.base_cell._modified = True
        return states

    def reset(self) -> None:
        """Count steps from the beginning."""
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of each gate by itself."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of the gates one behind the other."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Keeps elements of output and states as they were, at random.

    Args:
        base_cell: The cell.
        zoneout_outputs: Share of elements of the output.
        zoneout_states: Share of elements of the states.

    Raises:
        UsageError: The cell is a fused one.
    """

    def __init__(
        self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        if hasattr(base_cell, "unfuse"):
            raise UsageError("a FusedRNNCell has no zoneout; call unfuse() first")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self.prev_output: Any = None

    def reset(self) -> None:
        """Count steps from the beginning."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        output, following = self.base_cell(inputs, states)

        def mix(share: float, new: Any, old: Any) -> Any:
            if not share:
                return new
            return sym.where(sym.Dropout(sym.ones_like(new), p=share), new, old)

        before = sym.zeros_like(output) if self.prev_output is None else self.prev_output
        output = mix(self.zoneout_outputs, output, before)
        self.prev_output = output
        pairs = zip(following, states, strict=True)
        return output, [mix(self.zoneout_states, new, old) for new, old in pairs]


class ResidualCell(ModifierCell):
    """Adds its input to its output."""

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        output, following = self.base_cell(inputs, states)
        return sym.elemwise_add(output, inputs, name=f"{output.name}_plus_residual"), following


class BidirectionalCell(BaseRNNCell):
    """A cell from the first step on and one from the last back; it can only be unrolled.

    Args:
        l_cell: From the first step on.
        r_cell: From the last step back.
        params: Variables to share.
        output_prefix: What the names of the outputs begin with.
    """

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ) -> None:
        super().__init__("", params)
        self._output_prefix = output_prefix
        self._cells = [l_cell, r_cell]

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Not possible: the way back begins at the last step."""
        raise UsageError("a BidirectionalCell cannot make single steps; call unroll")

    def reset(self) -> None:
        """Count steps from the beginning."""
        super().reset()
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of the states of both cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs: Any) -> States:  # type: ignore[override]  # MXNet's signatures differ, too
        """Return the states of before the first step, of both cells."""
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unroll(
        self,
        length: int,
        inputs: Any = None,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        input_prefix: str = "",
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps."""
        self.reset()
        if inputs is None:
            inputs = [sym.Variable(f"{input_prefix}t{number}_data") for number in range(length)]
        steps = split_steps(length, inputs, layout)
        states = self.begin_state() if begin_state is None else begin_state
        left, right = self._cells
        count = len(left.state_info)
        ahead, left_states = left.unroll(length, steps, states[:count], layout, False)
        back, right_states = right.unroll(length, steps[::-1], states[count:], layout, False)
        outputs = [
            sym.Concat(one, other, dim=1, name=f"{self._output_prefix}t{number}")
            for number, (one, other) in enumerate(zip(ahead, back[::-1], strict=True))
        ]
        return (merged(outputs, layout) if merge_outputs else outputs), left_states + right_states

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of each gate by itself."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of the gates one behind the other."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

"""Recurrent cells of MXNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import initializer as init
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym

States = list[Any]


class RNNParams:
    """The variables of cells, each made once.

    Args:
        prefix: What their names begin with.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """Return the variable of a name."""
        full = self._prefix + name
        if full not in self._params:
            self._params[full] = sym.Variable(full, **kwargs)
        return self._params[full]


class BaseRNNCell:
    """A cell; a subclass has ``state_info`` and ``__call__``.

    Args:
        prefix: What the names of its layers begin with.
        params: Its variables; those of another cell to share them.
    """

    gates: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of its gates, in the order in which their weights are stacked."""

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = params or RNNParams(prefix)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Count steps from the beginning."""
        self._init_counter = self._counter = -1

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """Return output and states after one step."""
        raise NotImplementedError

    @property
    def params(self) -> RNNParams:
        """Its variables, to be shared with another cell."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of its states."""
        raise NotImplementedError

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Sizes of its states; 0 for the batch."""
        return [info["shape"] for info in self.state_info]

    def begin_state(self, func: Callable[..., Symbol] = sym.zeros, **kwargs: Any) -> States:
        """Return the states of before the first step.

        Args:
            func: Makes a state; ``sym.Variable`` for inputs of the net.
            kwargs: For it.

        Raises:
            UsageError: Another cell modifies this one.
        """
        if self._modified:
            raise UsageError("this cell is modified by another one; call begin_state of that")
        states = []
        for info in self.state_info:
            self._init_counter += 1
            given = {**kwargs, **info}
            if func is sym.zeros or func is sym.ones:
                given.pop("__layout__", None)
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **given))
        return states

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of each gate by itself."""
        unpacked = dict(args)
        for group, kind in _kinds(self):
            stacked = unpacked.pop(f"{self._prefix}{group}_{kind}")
            size = stacked.shape[0] // len(self.gates)
            for number, gate in enumerate(self.gates):
                part = stacked[number * size : (number + 1) * size].copy()
                unpacked[f"{self._prefix}{group}{gate}_{kind}"] = part
        return unpacked

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of the gates one behind the other."""
        packed = dict(args)
        for group, kind in _kinds(self):
            parts = [packed.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self.gates]
            packed[f"{self._prefix}{group}_{kind}"] = nd.concatenate(parts)
        return packed

    def unroll(
        self,
        length: int,
        inputs: Any = None,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        input_prefix: str = "",
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps.

        Args:
            length: Number of steps.
            inputs: A symbol of all steps, one for each, or None for variables ``INPUT_PREFIXtN_data``.
            begin_state: The states of before the first step.
            layout: Axes of the symbol of all steps.
            merge_outputs: Whether the outputs are one symbol; None for as it is easiest.
            input_prefix: For variables.
        """
        self.reset()
        if inputs is None:
            inputs = [sym.Variable(f"{input_prefix}t{number}_data") for number in range(length)]
        steps = split_steps(length, inputs, layout)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return (merged(outputs, layout) if merge_outputs else outputs), states

    def _get_activation(self, inputs: Symbol, activation: Any, **kwargs: Any) -> Symbol:
        if isinstance(activation, str):
            return sym.Activation(inputs, act_type=activation, **kwargs)  # type: ignore[no-any-return]  # symbols are made of a table
        return activation(inputs, **kwargs)  # type: ignore[no-any-return]  # any callable over symbols


def _kinds(cell: BaseRNNCell) -> list[tuple[str, str]]:
    return [(group, kind) for group in ("i2h", "h2h") for kind in ("weight", "bias")] if cell.gates else []


def split_steps(length: int, inputs: Any, layout: str) -> list[Any]:
    """Return a symbol of all steps as one for each.

    Raises:
        UsageError: There is another number of steps.
    """
    if isinstance(inputs, list | tuple) or (len(inputs) == length and length > 1):
        steps = list(inputs)
    else:
        steps = list(sym.SliceChannel(inputs, axis=layout.find("T"), num_outputs=length, squeeze_axis=1))
    if len(steps) != length:
        raise UsageError(f"{len(steps)} inputs are given for {length} steps")
    return steps


def merged(steps: Sequence[Any], layout: str) -> Any:
    """Return symbols of steps as one."""
    axis = layout.find("T")
    return sym.Concat(*[sym.expand_dims(step, axis=axis) for step in steps], dim=axis)


class _GatedCell(BaseRNNCell):
    """A cell with one stack of weights for the input and one for the state."""

    def __init__(
        self,
        num_hidden: int,
        prefix: str,
        params: RNNParams | None,
        bias: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._iW, self._iB = self.params.get("i2h_weight"), self._params.get("i2h_bias", **(bias or {}))
        self._hW, self._hB = self._params.get("h2h_weight"), self._params.get("h2h_bias")
        self._own_params = params is None

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of its states."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _products(self, inputs: Any, state: Any) -> tuple[str, Any, Any]:
        """Return the name of the step, and the products of input and of state with their weights."""
        self._counter += 1
        name, size = f"{self._prefix}t{self._counter}_", self._num_hidden * len(self.gates)
        full = sym.FullyConnected
        of_input = full(inputs, self._iW, self._iB, num_hidden=size, name=f"{name}i2h")
        of_state = full(state, self._hW, self._hB, num_hidden=size, name=f"{name}h2h")
        return name, of_input, of_state


class RNNCell(_GatedCell):
    """h = f(W x + b + V h + c).

    Args:
        num_hidden: Units.
        activation: f, by name.
        prefix: What the names of its layers begin with.
        params: Variables of another cell.
    """

    gates = ("",)

    def __init__(
        self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._act = activation

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        name, of_input, of_state = self._products(inputs, states[0])
        output = self._get_activation(of_input + of_state, self._act, name=f"{name}out")
        return output, [output]


class LSTMCell(_GatedCell):
    """A long short-term memory with the gates i, f, c, o.

    Args:
        num_hidden: Units.
        prefix: What the names of its layers begin with.
        params: Variables of another cell.
        forget_bias: First value of the forget gate's bias.
    """

    gates = ("_i", "_f", "_c", "_o")

    def __init__(
        self,
        num_hidden: int,
        prefix: str = "lstm_",
        params: RNNParams | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        bias = {"init": init.LSTMBias(forget_bias=forget_bias)}
        super().__init__(num_hidden, prefix, params, bias)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of its states."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"} for _ in range(2)]

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        name, of_input, of_state = self._products(inputs, states[0])
        parts = sym.SliceChannel(of_input + of_state, num_outputs=4, name=f"{name}slice")
        act = self._get_activation
        enter = act(parts[0], "sigmoid", name=f"{name}i")
        forget = act(parts[1], "sigmoid", name=f"{name}f")
        value = act(parts[2], "tanh", name=f"{name}c")
        leave = act(parts[3], "sigmoid", name=f"{name}o")
        cell = forget * states[1] + enter * value
        output = leave * act(cell, "tanh")
        return output, [output, cell]


class GRUCell(_GatedCell):
    """A gated recurrent unit with the gates r, z, o; the reset gate acts on the product of the state.

    Args:
        num_hidden: Units.
        prefix: What the names of its layers begin with.
        params: Variables of another cell.
    """

    gates = ("_r", "_z", "_o")

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        name, of_input, of_state = self._products(inputs, states[0])
        x = sym.SliceChannel(of_input, num_outputs=3, name=f"{name}_i2h_slice")
        h = sym.SliceChannel(of_state, num_outputs=3, name=f"{name}_h2h_slice")
        act = self._get_activation
        reset = act(x[0] + h[0], "sigmoid", name=f"{name}_r_act")
        update = act(x[1] + h[1], "sigmoid", name=f"{name}_z_act")
        value = act(x[2] + reset * h[2], "tanh", name=f"{name}_h_act")
        output = (1.0 - update) * value + update * states[0]
        return output, [output]


class _JoinedCells(BaseRNNCell):
    """Cells that are one together; the states of one stand behind those of the other.

    Args:
        cells: The cells.
        params: Variables to share.
    """

    def __init__(self, cells: Sequence[BaseRNNCell], params: RNNParams | None = None) -> None:
        self._cells = list(cells)
        super().__init__("", params)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of the states of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs: Any) -> States:  # type: ignore[override]  # MXNet's signatures differ, too
        """Return the states of before the first step, of all cells."""
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def reset(self) -> None:
        """Count steps from the beginning."""
        super().reset()
        for cell in self._cells:
            cell.reset()

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


class SequentialRNNCell(_JoinedCells):
    """Cells one above the other.

    Args:
        params: Variables to share.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__((), params)

    def add(self, cell: BaseRNNCell) -> None:
        """Add a cell on top."""
        self._cells.append(cell)

    def _shares(self, states: States) -> list[States]:
        shares, start = [], 0
        for cell in self._cells:
            stop = start + len(cell.state_info)
            shares.append(states[start:stop])
            start = stop
        return shares

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        following: States = []
        for cell, own in zip(self._cells, self._shares(states), strict=True):
            inputs, after = cell(inputs, own)
            following += after
        return inputs, following

    def unroll(
        self,
        length: int,
        inputs: Any = None,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        input_prefix: str = "",
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps, cell by cell."""
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        following: States = []
        last = len(self._cells) - 1
        for number, (cell, own) in enumerate(zip(self._cells, self._shares(states), strict=True)):
            inputs, after = cell.unroll(
                length, inputs, own, layout, merge_outputs if number == last else None, input_prefix
            )
            following += after
        return inputs, following


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


class BidirectionalCell(_JoinedCells):
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
        super().__init__((l_cell, r_cell), params)
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Not possible: the way back begins at the last step."""
        raise UsageError("a BidirectionalCell cannot make single steps; call unroll")

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

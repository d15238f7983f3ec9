"""Recurrent cells of Gluon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.gluon.block import Block, HybridBlock
from netweave.mxnet.gluon.rnn import layers

States = list[Any]


class RecurrentCell(Block):
    """A recurrent cell, which computes one step; subclasses have ``forward(inputs, states)``, ``state_info``.

    Args:
        prefix: What the names of its parameters begin with.
        params: Parameters of another cell to share.
    """

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Forget what it knows of the steps before."""
        self._init_counter = self._counter = -1
        for child in self._children.values():
            if isinstance(child, RecurrentCell):
                child.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return sizes and layouts of its states."""
        raise NotImplementedError

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> States:
        """Return the states of before the first step.

        Args:
            batch_size: Records in a batch; arrays need it.
            func: Makes a state, such as ``mx.nd.ones``, or ``mx.sym.Variable`` for an input of the net.
            kwargs: For it.

        Raises:
            UsageError: Another cell modifies this one.
        """
        self._require_unmodified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            named = {"name": name} if func in {sym.var, sym.Variable, sym.zeros, sym.ones} else {}
            states.append(func(**named, **{"shape": info["shape"], **kwargs}))
        return states

    def _require_unmodified(self) -> None:
        if self._modified:
            raise UsageError(f"{self.name} is modified by another cell; call begin_state of that")

    def _first_states(self, begin_state: States | None, inputs: Any, layout: str) -> States:
        """Return the given states, or those of before the first step of some inputs."""
        if begin_state is not None:
            return begin_state
        count = layers.batch_size(inputs, layout.find("N"))
        return self.begin_state(batch_size=count, func=layers.operators_of(inputs).zeros)

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        """Return outputs and states after some steps.

        Args:
            length: Number of steps.
            inputs: Arrays or symbols: one of all steps, or one for each.
            begin_state: The states of before the first step.
            layout: Axes of that of all steps.
            merge_outputs: Whether the outputs are one array or symbol; None for as it is easiest.
            valid_length: Steps of each record; the outputs behind them are 0, the states those of the last.

        Raises:
            UsageError: There are not so many inputs.
        """
        self.reset()
        axis = layout.find("T")
        states = self._first_states(begin_state, inputs, layout)
        outputs: Any = []
        history = []
        for step in layers.split(inputs, length, axis):
            output, states = self(step, states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = [layers.last(steps, valid_length) for steps in zip(*history, strict=True)]
            outputs = layers.mask(outputs, valid_length, axis)
        return self._as_asked(outputs, length, axis, merge_outputs), states

    @staticmethod
    def _as_asked(outputs: Any, length: int, axis: int, merge_outputs: bool | None) -> Any:
        if merge_outputs:
            return layers.join(outputs, axis)
        return outputs if merge_outputs is None else layers.split(outputs, length, axis)

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        self._counter += 1
        result: tuple[Any, States] = super().__call__(inputs, states)
        return result

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Apply an activation, by its name or as a function or block; cells of scripts call it too."""
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A cell for arrays and symbols: a subclass has ``hybrid_forward(F, inputs, states, **parameters)``."""


class GatedCell(HybridRecurrentCell):
    """A cell with one stack of weights for the input and one for the state.

    Args:
        hidden_size: Units.
        i2h_weight_initializer: For the weights of the input.
        h2h_weight_initializer: For the weights of the state.
        i2h_bias_initializer: For the bias of the input.
        h2h_bias_initializer: For the bias of the state.
        input_size: Size of the input; 0 for that of the first.
        state_size: Size of the state that is multiplied; None for that of the units.
        prefix: What the names of its parameters begin with.
        params: Parameters of another cell to share.
    """

    num_gates: ClassVar[int] = 1
    num_states: ClassVar[int] = 1

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        *,
        state_size: int | None = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._rows = hidden_size, hidden_size * self.num_gates
        rows = {
            "i2h_weight": ((self._rows, input_size), i2h_weight_initializer),
            "h2h_weight": ((self._rows, state_size or hidden_size), h2h_weight_initializer),
            "i2h_bias": ((self._rows,), i2h_bias_initializer),
            "h2h_bias": ((self._rows,), h2h_bias_initializer),
        }
        for name, (shape, rule) in rows.items():
            setattr(self, name, self.params.get(name, shape=shape, init=rule, allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return sizes and layouts of its states."""
        shape = (batch_size, self._hidden_size)
        return [{"shape": shape, "__layout__": "NC"} for _ in range(self.num_states)]

    def _products(self, F: Any, inputs: Any, state: Any, parameters: dict[str, Any]) -> tuple[Any, Any]:
        """Return the products of input and of state with their weights."""
        of_input, of_state = (
            F.FullyConnected(
                value, parameters[f"{kind}_weight"], parameters[f"{kind}_bias"], num_hidden=self._rows
            )
            for value, kind in ((inputs, "i2h"), (state, "h2h"))
        )
        return of_input, of_state


class RNNCell(GatedCell):
    """h = f(W x + b + V h + c).

    Args:
        hidden_size: Units.
        activation: f, by name or as a block.
        args: As ``LSTMCell`` has them.
        kwargs: As ``LSTMCell`` has them.
    """

    alias = "rnn"

    def __init__(self, hidden_size: int, activation: Any = "tanh", *args: Any, **kwargs: Any) -> None:
        super().__init__(hidden_size, *args, **kwargs)
        self._activation = activation

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return output and states after one step."""
        of_input, of_state = self._products(F, x, args[0][0], kwargs)
        output = self._get_activation(F, of_input + of_state, self._activation)
        return output, [output]


class LSTMCell(GatedCell):
    """A long short-term memory with the gates i, f, c, o.

    Args:
        hidden_size: Units.
        args: Initializers, and the size of the input.
        activation: Of the value, by name or as a block.
        recurrent_activation: Of the gates.
        kwargs: Initializers, the size of the input, ``prefix`` and ``params``.
    """

    alias = "lstm"
    num_gates, num_states = 4, 2

    def __init__(
        self,
        hidden_size: int,
        *args: Any,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, *args, **kwargs)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return output and states after one step."""
        hidden, cell = args[0]
        of_input, of_state = self._products(F, x, hidden, kwargs)
        parts = F.SliceChannel(of_input + of_state, num_outputs=4)
        enter, forget, leave = (
            self._get_activation(F, parts[n], self._recurrent_activation) for n in (0, 1, 3)
        )
        cell = forget * cell + enter * self._get_activation(F, parts[2], self._activation)
        output = leave * self._get_activation(F, cell, self._activation)
        return output, [output, cell]


class GRUCell(GatedCell):
    """A gated recurrent unit with the gates r, z, o; the reset gate acts on the product of the state.

    Args:
        hidden_size: Units.
        args: As ``LSTMCell`` has them.
        activation: Of the value, by name or as a block.
        recurrent_activation: Of the gates.
        kwargs: As ``LSTMCell`` has them.
    """

    alias = "gru"
    num_gates = 3

    def __init__(
        self,
        hidden_size: int,
        *args: Any,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, *args, **kwargs)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return output and states after one step."""
        (before,) = args[0]
        of_input, of_state = self._products(F, x, before, kwargs)
        of_input, of_state = (F.SliceChannel(one, num_outputs=3) for one in (of_input, of_state))
        reset, update = (
            self._get_activation(F, of_input[n] + of_state[n], self._recurrent_activation) for n in (0, 1)
        )
        value = self._get_activation(F, of_input[2] + reset * of_state[2], self._activation)
        output = (1.0 - update) * value + update * before
        return output, [output]


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
        shares, start = [], 0
        for cell in self.cells:
            stop = start + len(cell.state_info())
            shares.append(list(states[start:stop]))
            start = stop
        return shares


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
        steps = layers.split(inputs, length, axis)
        forwards, backwards = self.cells
        first, second = self._shares(states)
        left, left_states = forwards.unroll(length, steps, first, layout, False, valid_length)
        turned = layers.reverse(steps, valid_length)
        right, right_states = backwards.unroll(length, turned, second, layout, False, valid_length)
        right = layers.reverse(right, valid_length)
        F = layers.operators_of(steps)
        outputs: Any = [F.concat(one, other, dim=1) for one, other in zip(left, right, strict=True)]
        if valid_length is not None:
            outputs = layers.mask(outputs, valid_length, axis)
        return self._as_asked(outputs, length, axis, merge_outputs), left_states + right_states


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
        F = layers.operators_of(x)
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
        own = layers.join(inputs, axis)
        outputs = outputs + (own if valid_length is None else layers.mask(own, valid_length, axis))
        return self._as_asked(outputs, length, axis, merge_outputs), states

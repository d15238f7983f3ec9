"""Cells as blocks: one step of a recurrent net, and a run of steps (gluon/rnn/rnn_cell.py at 1.9.1)."""

from __future__ import annotations

from typing import Any, ClassVar

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.gluon.block import Block, HybridBlock
from netweave.mxnet.gluon.rnn import sequences

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
        count = sequences.batch_size(inputs, layout.find("N"))
        return self.begin_state(batch_size=count, func=sequences.operators_of(inputs).zeros)

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
        for step in sequences.split(inputs, length, axis):
            output, states = self(step, states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = [sequences.last(steps, valid_length) for steps in zip(*history, strict=True)]
            outputs = sequences.mask(outputs, valid_length, axis)
        return self._as_asked(outputs, length, axis, merge_outputs), states

    @staticmethod
    def _as_asked(outputs: Any, length: int, axis: int, merge_outputs: bool | None) -> Any:
        if merge_outputs:
            return sequences.join(outputs, axis)
        return outputs if merge_outputs is None else sequences.split(outputs, length, axis)

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Return output and states after one step."""
        self._counter += 1
        found: tuple[Any, States] = super().__call__(inputs, states)
        return found


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


def activate(F: Any, x: Any, activation: Any) -> Any:
    """Apply an activation, by its name or as a function or block."""
    return F.Activation(x, act_type=activation) if isinstance(activation, str) else activation(x)


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
        output = activate(F, of_input + of_state, self._activation)
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
        enter, forget, leave = (activate(F, parts[n], self._recurrent_activation) for n in (0, 1, 3))
        cell = forget * cell + enter * activate(F, parts[2], self._activation)
        output = leave * activate(F, cell, self._activation)
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
        reset, update = (activate(F, of_input[n] + of_state[n], self._recurrent_activation) for n in (0, 1))
        value = activate(F, of_input[2] + reset * of_state[2], self._activation)
        output = (1.0 - update) * value + update * before
        return output, [output]

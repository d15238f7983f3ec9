"""Recurrent layers of Gluon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.gluon.block import HybridBlock
from netweave.mxnet.gluon.parameter import DeferredInitializationError
from netweave.mxnet.ndarray.array import NDArray


class _Layer(HybridBlock):
    """Recurrent layers.

    Args:
        hidden_size: Units of a layer in one direction.
        num_layers: Layers.
        layout: ``TNC`` or ``NTC``.
        dropout: Share of elements dropped between layers.
        bidirectional: Whether there is a second direction.
        input_size: Size of an input; 0 for that of the first.
        i2h_weight_initializer: For the weights of inputs.
        h2h_weight_initializer: For the weights of states.
        i2h_bias_initializer: For the biases of inputs.
        h2h_bias_initializer: For the biases of states.
        mode: Which kind.
        kwargs: As for all blocks.

    Raises:
        UsageError: There is no such layout.
    """

    gates = 1
    num_states = 1

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        mode: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in {"TNC", "NTC"}:
            raise UsageError(f"layout is {layout!r}, expected 'TNC' or 'NTC'")
        self._hidden_size, self._num_layers, self._layout, self._mode = hidden_size, num_layers, layout, mode
        self._dropout, self._bidirectional = dropout, bidirectional
        self._ways = ("l", "r") if bidirectional else ("l",)
        rules = {
            "i2h_weight": i2h_weight_initializer,
            "h2h_weight": h2h_weight_initializer,
            "i2h_bias": i2h_bias_initializer,
            "h2h_bias": h2h_bias_initializer,
        }
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self._ways)
            shapes = {"i2h_weight": (rows, width), "h2h_weight": (rows, hidden_size)}
            for way in self._ways:
                for kind, rule in rules.items():
                    name = f"{way}{layer}_{kind}"
                    made = self.params.get(
                        name, shape=shapes.get(kind, (rows,)), init=rule, allow_deferred_init=True
                    )
                    setattr(self, name, made)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return sizes and layouts of the states."""
        shape = (self._num_layers * len(self._ways), batch_size, self._hidden_size)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(self.num_states)]

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """Return the states of before the first step."""
        return [func(shape=info["shape"], **kwargs) for info in self.state_info(batch_size)]

    def forward(self, x: Any, states: Any = None, *args: Any) -> Any:
        """Compute the outputs, and the last states if first ones are given."""
        given = states is not None
        time_major = x if self._layout == "TNC" else nd.SwapAxis(x, dim1=0, dim2=1)
        width = time_major.shape[2]
        try:
            packed = self._packed(x.context)
        except DeferredInitializationError:
            for way in self._ways:
                one = self._reg_params[f"{way}0_i2h_weight"]
                one.shape = (one.shape[0], width)
            for one in self._reg_params.values():
                one.finish()
            packed = self._packed(x.context)
        if states is None:
            states = self.begin_state(time_major.shape[1], ctx=x.context)
        states = [states] if isinstance(states, NDArray) else list(states)
        outcome = nd.RNN(
            time_major,
            packed,
            *states,
            state_size=self._hidden_size,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
        )
        outputs = outcome[0] if self._layout == "TNC" else nd.SwapAxis(outcome[0], dim1=0, dim2=1)
        return (outputs, list(outcome[1:])) if given else outputs

    def _packed(self, ctx: Any) -> NDArray:
        parts = [
            self._reg_params[f"{way}{layer}_{part}_{kind}"].data(ctx).reshape((-1,))
            for kind in ("weight", "bias")
            for layer in range(self._num_layers)
            for way in self._ways
            for part in ("i2h", "h2h")
        ]
        return nd.concatenate(parts)


class RNN(_Layer):
    """Layers of plain recurrent units."""

    def __init__(
        self, hidden_size: int, num_layers: int = 1, activation: str = "relu", *args: Any, **kw: Any
    ) -> None:
        super().__init__(hidden_size, num_layers, *args, **{**kw, "mode": f"rnn_{activation}"})


class LSTM(_Layer):
    """Layers of long short-term memories."""

    gates, num_states = 4, 2

    def __init__(self, hidden_size: int, num_layers: int = 1, *args: Any, **kw: Any) -> None:
        super().__init__(hidden_size, num_layers, *args, **{**kw, "mode": "lstm"})


class GRU(_Layer):
    """Layers of gated recurrent units."""

    gates = 3

    def __init__(self, hidden_size: int, num_layers: int = 1, *args: Any, **kw: Any) -> None:
        super().__init__(hidden_size, num_layers, *args, **{**kw, "mode": "gru"})


Steps = list[Any]


def operators_of(values: Any) -> Any:
    """Return ``mx.sym`` for symbols and ``mx.nd`` for arrays."""
    one = values[0] if isinstance(values, list | tuple) else values
    return sym if isinstance(one, Symbol) else nd


def split(inputs: Any, length: int, axis: int) -> Steps:
    """Return the steps of a sequence.

    Raises:
        UsageError: There is another number of them.
    """
    if isinstance(inputs, list | tuple):
        steps = list(inputs)
    else:
        count = length if isinstance(inputs, Symbol) else inputs.shape[axis]
        parts = operators_of(inputs).SliceChannel(inputs, axis=axis, num_outputs=count, squeeze_axis=1)
        steps = [parts] if isinstance(parts, nd.NDArray) else list(parts)
    if len(steps) != length:
        raise UsageError(f"{len(steps)} inputs are given for {length} steps")
    return steps


def join(steps: Any, axis: int) -> Any:
    """Return steps as one sequence; one that is none of steps as it is."""
    return operators_of(steps).stack(*steps, axis=axis) if isinstance(steps, list | tuple) else steps


def batch_size(inputs: Any, batch_axis: int) -> int:
    """Return the records in a batch; 0 where symbols do not say it."""
    if operators_of(inputs) is sym:
        return 0
    size: int = inputs[0].shape[0] if isinstance(inputs, list | tuple) else inputs.shape[batch_axis]
    return size


def mask(inputs: Any, valid_length: Any, axis: int) -> Any:
    """Return a sequence with zeros behind the end of each record."""
    whole = join(inputs, axis)
    settings = {"sequence_length": valid_length, "use_sequence_length": True, "axis": axis}
    return operators_of(whole).SequenceMask(whole, **settings)


def reverse(steps: Sequence[Any], valid_length: Any) -> Steps:
    """Return steps backwards, each record from its own end."""
    if valid_length is None:
        return list(reversed(steps))
    whole = join(list(steps), 0)
    settings = {"sequence_length": valid_length, "use_sequence_length": True}
    return split(operators_of(whole).SequenceReverse(whole, **settings), len(steps), 0)


def last(steps: Sequence[Any], valid_length: Any) -> Any:
    """Return the last step of each record."""
    whole = join(list(steps), 0)
    settings = {"sequence_length": valid_length, "use_sequence_length": True, "axis": 0}
    return operators_of(whole).SequenceLast(whole, **settings)

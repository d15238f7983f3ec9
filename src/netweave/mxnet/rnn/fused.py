"""``FusedRNNCell``: several layers and all steps in one operator, with one packed vector of weights."""

from __future__ import annotations

from typing import Any

from netweave.errors import UsageError
from netweave.mxnet import initializer as init
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.rnn.cells import (
    BaseRNNCell,
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNParams,
    SequentialRNNCell,
    States,
    merged,
    split_steps,
)

GATES = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}
"""Ends of the names of the gates, by mode."""


class FusedRNNCell(BaseRNNCell):
    """Several layers in one ``RNN`` operator; it can only be unrolled.

    Args:
        num_hidden: Units of a layer in one direction.
        num_layers: Layers.
        mode: ``rnn_relu``, ``rnn_tanh``, ``lstm`` or ``gru``.
        bidirectional: Whether there is a second direction.
        dropout: Share of elements dropped between layers.
        get_next_state: Whether the states after the last step are returned.
        forget_bias: First value of an LSTM's forget gates.
        prefix: What its names begin with; the mode by default.
        params: Variables to share.

    Raises:
        UsageError: There is no such mode.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        if mode not in GATES:
            raise UsageError(f"mode is {mode!r}, expected one of {', '.join(GATES)}")
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional, self._dropout, self._get_next_state = bidirectional, dropout, get_next_state
        self._directions = ("l", "r") if bidirectional else ("l",)
        rule = init.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self._params.get("parameters", init=rule)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Sizes and layouts of its states."""
        layers = len(self._directions) * self._num_layers
        count = 2 if self._mode == "lstm" else 1
        return [{"shape": (layers, 0, self._num_hidden), "__layout__": "LNC"} for _ in range(count)]

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:
        """Not possible: the operator has all steps."""
        raise UsageError("a FusedRNNCell cannot make single steps; call unroll, or unfuse() first")

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
        if isinstance(inputs, list | tuple) or len(inputs) > 1:
            inputs = merged(list(inputs), "TNC")
        elif layout == "NTC":
            inputs = sym.SwapAxis(inputs, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        names = ("state", "state_cell")[: len(states)]
        outcome = sym.RNN(
            data=inputs,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
            **dict(zip(names, states, strict=True)),
        )
        outputs = outcome[0] if self._get_next_state else outcome
        after = [outcome[number + 1] for number in range(len(states))] if self._get_next_state else []
        if layout == "NTC":
            outputs = sym.SwapAxis(outputs, dim1=0, dim2=1)
        if merge_outputs is False:
            outputs = split_steps(length, outputs, layout)
        return outputs, after

    def unfuse(self) -> SequentialRNNCell:
        """Return the same as a stack of single cells."""
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            cells = [self._single(f"{self._prefix}{way}{layer}_") for way in self._directions]
            if self._bidirectional:
                prefix = f"{self._prefix}bi_l{layer}_"
                stack.add(BidirectionalCell(cells[0], cells[1], output_prefix=prefix))
            else:
                stack.add(cells[0])
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack

    def _single(self, prefix: str) -> BaseRNNCell:
        size = self._num_hidden
        if self._mode == "lstm":
            return LSTMCell(size, prefix=prefix)
        if self._mode == "gru":
            return GRUCell(size, prefix=prefix)
        return RNNCell(size, activation=self._mode.removeprefix("rnn_"), prefix=prefix)

    def _places(self, input_size: int) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and sizes of what the vector holds, in its order: all weights, then all biases."""
        size, ways = self._num_hidden, len(self._directions)
        gates = GATES[self._mode]
        places: list[tuple[str, tuple[int, ...]]] = []
        for layer in range(self._num_layers):
            width = input_size if layer == 0 else size * ways
            for way in self._directions:
                head = f"{self._prefix}{way}{layer}_"
                places += [(f"{head}i2h{gate}_weight", (size, width)) for gate in gates]
                places += [(f"{head}h2h{gate}_weight", (size, size)) for gate in gates]
        for layer in range(self._num_layers):
            for way in self._directions:
                head = f"{self._prefix}{way}{layer}_"
                places += [(f"{head}i2h{gate}_bias", (size,)) for gate in gates]
                places += [(f"{head}h2h{gate}_bias", (size,)) for gate in gates]
        return places

    def _input_size(self, count: int) -> int:
        ways, size, gates = len(self._directions), self._num_hidden, len(GATES[self._mode])
        upper = (self._num_layers - 1) * (size + ways * size + 2) * ways * gates * size
        return (count - upper) // (ways * gates * size) - size - 2

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with those of each layer, direction and gate by itself."""
        unpacked = dict(args)
        vector = unpacked.pop(f"{self._prefix}parameters")
        start = 0
        for name, shape in self._places(self._input_size(vector.size)):
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            unpacked[name] = vector[start : start + count].reshape(shape).copy()
            start += count
        return unpacked

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return arrays with all of the operator's in one vector."""
        packed = dict(args)
        first = packed[f"{self._prefix}l0_i2h{GATES[self._mode][0]}_weight"]
        parts = [packed.pop(name).reshape((-1,)) for name, _ in self._places(first.shape[1])]
        packed[f"{self._prefix}parameters"] = nd.concatenate(parts)
        return packed

"""``gluon.contrib.rnn``: the cell of large language models."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.gluon.rnn.cells import GatedCell


class LSTMPCell(GatedCell):
    """A long short-term memory whose output is projected to fewer units (arXiv 1402.1128).

    Args:
        hidden_size: Units of the memory.
        projection_size: Units of the output.
        i2h_weight_initializer: For the weights of the input.
        h2h_weight_initializer: For the weights of the state.
        h2r_weight_initializer: For the weights of the projection.
        args: Initializers of the biases, and the size of the input.
        kwargs: The same, ``prefix`` and ``params``.
    """

    alias = "lstmp"
    num_gates, num_states = 4, 2

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        initializers = i2h_weight_initializer, h2h_weight_initializer
        super().__init__(hidden_size, *initializers, *args, state_size=projection_size, **kwargs)
        self._projection_size = projection_size
        shape = (projection_size, hidden_size)
        self.h2r_weight = self.params.get(
            "h2r_weight", shape=shape, init=h2r_weight_initializer, allow_deferred_init=True
        )

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return sizes and layouts of its states."""
        sizes = self._projection_size, self._hidden_size
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return output and states after one step."""
        projected, cell = args[0]
        of_input, of_state = self._products(F, x, projected, kwargs)
        parts = F.SliceChannel(of_input + of_state, num_outputs=4)
        enter, forget, leave = (F.Activation(parts[n], act_type="sigmoid") for n in (0, 1, 3))
        cell = forget * cell + enter * F.Activation(parts[2], act_type="tanh")
        hidden = leave * F.Activation(cell, act_type="tanh")
        size = self._projection_size
        output = F.FullyConnected(hidden, kwargs["h2r_weight"], num_hidden=size, no_bias=True)
        return output, [output, cell]

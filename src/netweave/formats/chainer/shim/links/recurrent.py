"""Recurrent links, one step a call (``chainer.links.rnn``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.connection import zeros_like_state
from netweave.formats.chainer.shim.link import Chain
from netweave.formats.chainer.shim.links.connection import Linear
from netweave.formats.chainer.shim.links.table import composite

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


class _LSTM(Chain):
    def __init__(
        self,
        in_size: Any,
        out_size: Any = None,
        lateral_init: Any = None,
        upward_init: Any = None,
        bias_init: Any = None,
        forget_bias_init: Any = None,
    ) -> None:
        super().__init__()
        if out_size is None:
            in_size, out_size = None, in_size
        self.state_size = out_size
        with self.init_scope():
            self.upward = Linear(in_size, 4 * out_size)
            self.lateral = Linear(out_size, 4 * out_size, nobias=True)

    def _step(self, c: Any, h: Any, x: Any) -> tuple[Variable, Variable]:
        gates = self.upward(x)
        if h is not None:
            gates = gates + self.lateral(h)
        if c is None:
            c = zeros_like_state(x, self.state_size)
        made: tuple[Variable, Variable] = F["lstm"](c, gates)
        return made


@composite
class LSTM(_LSTM):
    """Keeps its states from call to call; the first call starts from zeros."""

    c: Any = None
    h: Any = None

    def reset_state(self) -> None:
        """Start from zeros again."""
        self.c = self.h = None

    def set_state(self, c: Any, h: Any) -> None:
        """Start from these states."""
        self.c, self.h = c, h

    def forward(self, x: Any) -> Variable:
        """One step."""
        self.c, self.h = self._step(self.c, self.h, x)
        made: Variable = self.h
        return made


@composite
class StatelessLSTM(_LSTM):
    """Is given its states."""

    def forward(self, c: Any, h: Any, x: Any) -> tuple[Variable, Variable]:
        """One step."""
        return self._step(c, h, x)


class _GRU(Chain):
    def __init__(
        self, in_size: Any, out_size: Any, init: Any = None, inner_init: Any = None, bias_init: Any = None
    ) -> None:
        super().__init__()
        with self.init_scope():
            for name in ("W_r", "W_z", "W"):
                setattr(self, name, Linear(in_size, out_size))
            for name in ("U_r", "U_z", "U"):
                setattr(self, name, Linear(out_size, out_size))


@composite
class StatelessGRU(_GRU):
    """Is given its state; the gate z takes the new value."""

    def forward(self, h: Any, x: Any) -> Variable:
        """One step."""
        r = F["sigmoid"](self["W_r"](x) + self["U_r"](h))
        z = F["sigmoid"](self["W_z"](x) + self["U_z"](h))
        new = F["tanh"](self["W"](x) + self["U"](r * h))
        made: Variable = F["linear_interpolate"](z, new, h)
        return made


@composite
class StatefulGRU(_GRU):
    """Keeps its state from call to call."""

    h: Any = None

    def __init__(
        self, in_size: Any, out_size: Any, init: Any = None, inner_init: Any = None, bias_init: Any = 0
    ) -> None:
        super().__init__(in_size, out_size, init, inner_init, bias_init)

    def reset_state(self) -> None:
        """Start from nothing again."""
        self.h = None

    def set_state(self, h: Any) -> None:
        """Start from this state."""
        self.h = h

    def forward(self, x: Any) -> Variable:
        """One step."""
        z, new = self["W_z"](x), self["W"](x)
        if self.h is not None:
            r = F["sigmoid"](self["W_r"](x) + self["U_r"](self.h))
            z = z + self["U_z"](self.h)
            new = new + self["U"](r * self.h)
        z, new = F["sigmoid"](z), F["tanh"](new)
        self.h = z * new if self.h is None else F["linear_interpolate"](z, new, self.h)
        made: Variable = self.h
        return made


@composite
class GRU(StatefulGRU):
    """Chainer's other name for it."""

"""Recurrent links, one step a call (``chainer.links.rnn``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.connection import zeros_like_state
from netweave.formats.chainer.shim.link import Chain
from netweave.formats.chainer.shim.links.connection import Linear
from netweave.formats.chainer.shim.links.table import Signed, composite, takes

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


@takes("in_size, out_size=None, lateral_init=None, upward_init=None, bias_init=None, forget_bias_init=None")
class _LSTM(Signed, Chain):
    def _build(self, in_size: Any, out_size: Any) -> None:
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
        return F["lstm"](c, gates)


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
        return self.h


@composite
class StatelessLSTM(_LSTM):
    """Is given its states."""

    def forward(self, c: Any, h: Any, x: Any) -> tuple[Variable, Variable]:
        """One step."""
        return self._step(c, h, x)


@takes("in_size, out_size, init=None, inner_init=None, bias_init=None")
class _GRU(Signed, Chain):
    def _build(self, in_size: Any, out_size: Any) -> None:
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
        return F["linear_interpolate"](z, new, h)


@composite
@takes("in_size, out_size, init=None, inner_init=None, bias_init=0")
class StatefulGRU(_GRU):
    """Keeps its state from call to call."""

    h: Any = None

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
        return self.h


@composite
class GRU(StatefulGRU):
    """Chainer's other name for it."""

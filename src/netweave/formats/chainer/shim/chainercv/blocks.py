"""Blocks of convolutions, and chains whose parts can be asked for (``chainercv.links.connection``)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.chainercv.table import cv_link
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, Link
from netweave.formats.chainer.shim.links.connection import Linear
from netweave.formats.chainer.shim.links.convolution import Convolution2D, DilatedConvolution2D
from netweave.formats.chainer.shim.links.normalisation import BatchNormalization
from netweave.formats.chainer.shim.links.table import Signed, takes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from netweave.formats.chainer.shim.variable import Variable

    Activation = Callable[[Any], Any] | None


def _normalised(size: int, bn_kwargs: dict[str, Any] | None) -> BatchNormalization:
    """Return a normalisation; over how many machines it is done counts in training alone."""
    settings = {name: value for name, value in (bn_kwargs or {}).items() if name != "comm"}
    return BatchNormalization(size, **settings)


@cv_link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, dilate=1, nobias=False, initialW=None, "
    "initial_bias=None, activ=relu"
)
class Conv2DActiv(Signed, Chain):
    """A convolution and an activation."""

    def _build(self, dilate: int, activ: Activation, **window: Any) -> None:
        self.activ = activ
        with self.init_scope():
            self.conv: Link
            if dilate > 1:
                self.conv = DilatedConvolution2D(dilate=dilate, **window)
            else:
                self.conv = Convolution2D(**window)

    def forward(self, x: Any) -> Variable:
        """One after the other."""
        convolved: Variable = self.conv(x)
        return convolved if self.activ is None else self.activ(convolved)


@cv_link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, dilate=1, groups=1, nobias=True, "
    "initialW=None, initial_bias=None, activ=relu, bn_kwargs=None"
)
class Conv2DBNActiv(Signed, Chain):
    """A convolution, a batch normalisation and an activation; without a bias unless it is asked for."""

    def _build(self, activ: Activation, bn_kwargs: dict[str, Any] | None, **window: Any) -> None:
        self.activ = activ
        with self.init_scope():
            self.conv = Convolution2D(**window)
            self.bn = _normalised(self.conv.out_channels, bn_kwargs)

    def forward(self, x: Any) -> Variable:
        """One after the other."""
        convolved: Variable = self.bn(self.conv(x))
        return convolved if self.activ is None else self.activ(convolved)


@cv_link
@takes(
    "in_channels, out_channels, ksize, stride=1, pad=0, dilate=1, nobias=False, dw_initialW=None, "
    "pw_initialW=None, dw_initial_bias=None, pw_initial_bias=None, dw_activ=identity, pw_activ=relu, "
    "bn_kwargs=None"
)
class SeparableConv2DBNActiv(Signed, Chain):
    """A convolution of each channel by itself and one of 1 by 1, both normalised."""

    def _build(
        self,
        in_channels: int,
        out_channels: int,
        nobias: bool,
        dw_activ: Activation,
        pw_activ: Activation,
        bn_kwargs: dict[str, Any] | None,
        **window: Any,
    ) -> None:
        self.dw_activ, self.pw_activ = dw_activ or F["identity"], pw_activ or F["identity"]
        with self.init_scope():
            self.depthwise = Convolution2D(
                in_channels, in_channels, nobias=nobias, groups=in_channels, **window
            )
            self.pointwise = Convolution2D(in_channels, out_channels, 1, nobias=nobias)
            self.dw_bn = _normalised(in_channels, bn_kwargs)
            self.pw_bn = _normalised(out_channels, bn_kwargs)

    def forward(self, x: Any) -> Variable:
        """Each by itself, then all together."""
        h = self.dw_activ(self.dw_bn(self.depthwise(x)))
        return self.pw_activ(self.pw_bn(self.pointwise(h)))


@cv_link
class SEBlock(Chain):
    """Every channel times a number that is computed from the means of all."""

    def __init__(self, n_channel: int, ratio: int = 16) -> None:
        super().__init__()
        with self.init_scope():
            self.down = Linear(n_channel, n_channel // ratio)
            self.up = Linear(n_channel // ratio, n_channel)

    def forward(self, u: Any) -> Variable:
        """The channels, each scaled."""
        means = F["average"](u, axis=(2, 3))
        scales = F["sigmoid"](self.up(F["relu"](self.down(means))))
        return u * F["reshape"](scales, (*scales.shape[:2], 1, 1))


@cv_link
class PickableSequentialChain(Chain):
    """Links and functions by name, called in the order of their names; some results can be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_names: list[str] = []
        self._picked: tuple[str, ...] | None = None
        self._is_one = True

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if getattr(self, "_is_open", False) and callable(value):
            self.layer_names.append(name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in self.layer_names:
            self.layer_names.remove(name)

    @property
    def pick(self) -> Any:
        """Whose results are asked for: a name, several, or None for the last."""
        if self._picked is None:
            return None
        return self._picked[0] if self._is_one else self._picked

    @pick.setter
    def pick(self, names: str | Iterable[str] | None) -> None:
        self._is_one = names is None or isinstance(names, str)
        self._picked = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        unknown = [name for name in self._picked or () if name not in self.layer_names]
        if unknown:
            raise CodeError(f"picks {unknown[0]!r}, expected one of {', '.join(self.layer_names)}")

    def remove_unused(self) -> None:
        """Drop what lies behind the last that is asked for."""
        if self._picked is not None:
            last = max(self.layer_names.index(name) for name in self._picked)
            for name in self.layer_names[last + 1 :]:
                delattr(self, name)

    def copy(self, mode: str = "share") -> Any:
        """A copy with an order of its own."""
        chain: Any = super().copy(mode)
        chain.layer_names = copy.copy(self.layer_names)
        return chain

    def forward(self, x: Any) -> Any:
        """Return the requested outputs."""
        wanted = self._picked or (self.layer_names[-1],)
        last = max(self.layer_names.index(name) for name in wanted)
        computed: dict[str, Any] = {}
        for name in self.layer_names[: last + 1]:
            computed[name] = x = self[name](x)
        picked = tuple(computed[name] for name in wanted)
        return picked[0] if self._is_one else picked

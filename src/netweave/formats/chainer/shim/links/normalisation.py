"""Links that normalise (``chainer.links.normalization``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.normalisation import kept_axes
from netweave.formats.chainer.shim.link import Link
from netweave.formats.chainer.shim.links.table import Signed, link, takes
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.chainer.shim.variable import Parameter, Variable


@link
@takes(
    "size=None, decay=0.9, eps=2e-5, dtype=None, use_gamma=True, use_beta=True, initial_gamma=None, "
    "initial_beta=None, axis=None, initial_avg_mean=None, initial_avg_var=None"
)
class BatchNormalization(Signed, Link):
    """By stored statistics; scale and shift may be left out, the size be left to the first call."""

    def _build(
        self, size: Any, decay: float, eps: float, dtype: Any, use_gamma: bool, use_beta: bool, axis: Any
    ) -> None:
        self.eps, self.decay, self.axis = eps, decay, axis
        with self.init_scope():
            self.gamma = Parameter(role="gamma") if use_gamma else None
            self.beta = Parameter(role="beta") if use_beta else None
        self.add_persistent("avg_mean", Parameter(name="avg_mean", role="mean", is_trainable=False))
        self.add_persistent("avg_var", Parameter(name="avg_var", role="variance", is_trainable=False))
        self.add_persistent("N", 0)
        if size is not None:
            self._know(tuple(map(int, size)) if isinstance(size, tuple | list) else (int(size),))

    def _know(self, sizes: tuple[int, ...]) -> None:
        for each in (self.gamma, self.beta, *(self._persistent[name] for name in ("avg_mean", "avg_var"))):
            if each is not None:
                each.initialize(sizes)
        self.sizes = sizes

    def forward(self, x: Any, *, finetune: bool = False) -> Variable:
        """Apply the link."""
        mean, variance = self._persistent["avg_mean"], self._persistent["avg_var"]
        if not mean.is_initialized:
            self._know(tuple(int(x.shape[axis]) for axis in kept_axes(x.ndim, self.axis)))
        record = current()
        gamma = self.gamma if self.gamma is not None else record.constant(np.ones(self.sizes))
        beta = self.beta if self.beta is not None else record.constant(np.zeros(self.sizes))
        return F["fixed_batch_normalization"](x, gamma, beta, mean, variance, self.eps, self.axis)


class _ScaleAndShift(Signed, Link):
    def _build(self, size: Any, eps: float) -> None:
        self.eps = eps
        with self.init_scope():
            self.gamma = Parameter(shape=size, role="gamma")
            self.beta = Parameter(shape=size, role="beta")

    def _know(self, size: int) -> None:
        for each in (self.gamma, self.beta):
            if not each.is_initialized:
                each.initialize(size)


@link
@takes("size=None, eps=1e-6, initial_gamma=None, initial_beta=None")
class LayerNormalization(_ScaleAndShift):
    """By the statistics of each row; epsilon is 1e-6."""

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(int(x.shape[1]))
        return F["layer_normalization"](x, self.gamma, self.beta, self.eps)


@link
@takes("groups, size=None, eps=1e-5, initial_gamma=None, initial_beta=None")
class GroupNormalization(_ScaleAndShift):
    """By the statistics of groups of channels."""

    def _build(self, size: Any, eps: float, groups: int = 1) -> None:
        super()._build(size, eps)
        self.groups = groups

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(int(x.shape[1]))
        return F["group_normalization"](x, self.groups, self.gamma, self.beta, self.eps)

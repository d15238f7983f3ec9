"""Links that normalise (``chainer.links.normalization``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.normalisation import kept_axes
from netweave.formats.chainer.shim.link import Link
from netweave.formats.chainer.shim.links.table import link
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.chainer.shim.variable import Parameter, Variable


@link
class BatchNormalization(Link):
    """By stored statistics; scale and shift may be left out, the size be left to the first call."""

    def __init__(
        self,
        size: Any = None,
        decay: float = 0.9,
        eps: float = 2e-5,
        dtype: Any = None,
        use_gamma: bool = True,
        use_beta: bool = True,
        initial_gamma: Any = None,
        initial_beta: Any = None,
        axis: Any = None,
        initial_avg_mean: Any = None,
        initial_avg_var: Any = None,
    ) -> None:
        super().__init__()
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
        made: Variable = F["fixed_batch_normalization"](x, gamma, beta, mean, variance, self.eps, self.axis)
        return made


@link
class LayerNormalization(Link):
    """By the statistics of each row; epsilon is 1e-6."""

    def __init__(
        self, size: Any = None, eps: float = 1e-6, initial_gamma: Any = None, initial_beta: Any = None
    ) -> None:
        super().__init__()
        self.eps = eps
        with self.init_scope():
            self.gamma = Parameter(shape=size, role="gamma")
            self.beta = Parameter(shape=size, role="beta")

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        for each in (self.gamma, self.beta):
            if not each.is_initialized:
                each.initialize(int(x.shape[1]))
        made: Variable = F["layer_normalization"](x, self.gamma, self.beta, self.eps)
        return made


@link
class GroupNormalization(Link):
    """By the statistics of groups of channels."""

    def __init__(
        self,
        groups: int,
        size: Any = None,
        eps: float = 1e-5,
        initial_gamma: Any = None,
        initial_beta: Any = None,
    ) -> None:
        super().__init__()
        self.groups, self.eps = groups, eps
        with self.init_scope():
            self.gamma = Parameter(shape=size, role="gamma")
            self.beta = Parameter(shape=size, role="beta")

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        for each in (self.gamma, self.beta):
            if not each.is_initialized:
                each.initialize(int(x.shape[1]))
        made: Variable = F["group_normalization"](x, self.groups, self.gamma, self.beta, self.eps)
        return made

"""``SVRGModule``: gradients corrected by those of an older point (Johnson and Zhang, 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet.module.module import Module

Sums = dict[str, torch.Tensor]


class SVRGModule(Module):
    """A module whose update is by ``g(w) - g(v) + G(v)``.

    ``v`` are the arrays as they were at the last full pass, ``G(v)`` is the mean gradient of that pass.

    Args:
        symbol: The net.
        data_names: Inputs that are data.
        label_names: Inputs that are labels.
        update_freq: Every so many epochs there is a full pass.
        args: As for ``Module``.
        kwargs: As for ``Module``.

    Raises:
        UsageError: ``update_freq`` is no whole number of at least 1.
    """

    has_fit_state: ClassVar[bool] = False  # the older point and its gradient are in no checkpoint

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        *args: Any,
        update_freq: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(symbol, data_names, label_names, *args, **kwargs)
        if not isinstance(update_freq, int) or update_freq < 1:
            raise UsageError(f"update_freq is {update_freq!r}, expected a whole number of epochs, 1 or more")
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, data_names, label_names, *args, **kwargs)
        self._full: list[Sums] = []

    def bind(self, data_shapes: Any, label_shapes: Any = None, *args: Any, **kwargs: Any) -> None:
        """Make both nets for some sizes; see ``Module.bind``."""
        super().bind(data_shapes, label_shapes, *args, **kwargs)
        if self.for_training:
            self._mod_aux.bind(data_shapes, label_shapes, *args, **kwargs)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Go on with other sizes and the same arrays."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(self, *args: Any, **kwargs: Any) -> None:
        """Make the optimizer; see ``Module.init_optimizer``."""
        super().init_optimizer(*args, **kwargs)
        self._full = [
            {name: torch.zeros_like(array.tensor) for name, array in one.grad_dict.items()}
            for one in self.execs
        ]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; for training at the older point, too."""
        super().forward(data_batch, is_train)
        if is_train:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients, at the older point too."""
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def update_full_grads(self, train_data: Any) -> None:
        """Make the arrays of now the older point, and find its mean gradient over all batches."""
        self._mod_aux.set_params(*self.get_params())
        train_data.reset()
        batches, padding = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            batches, padding = batches + 1, batch.pad or 0
            for sums, one in zip(self._full, self._mod_aux.execs, strict=True):
                for name in sums:
                    # as in MXNet, the mean of the pass before stays in the sum
                    sums[name] += one.grad_dict[name].tensor
        count = batches - padding / train_data.batch_size
        for name in self._full[0]:
            mean = torch.stack([sums[name] for sums in self._full]).sum(0) / count / len(self._full)
            for sums in self._full:
                sums[name].copy_(mean)

    def update(self) -> None:
        """Change the arrays by the corrected gradients."""
        for one, older, sums in zip(self.execs, self._mod_aux.execs, self._full, strict=True):
            for name, mean in sums.items():
                one.grad_dict[name].tensor.sub_(older.grad_dict[name].tensor).add_(mean)
        super().update()

    def _begin_epoch(self, train_data: Any, epoch: int) -> None:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()

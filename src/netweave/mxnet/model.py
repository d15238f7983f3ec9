"""``mx.model``: checkpoints, and the model of MXNet's first scripts."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet.checkpoint import load_checkpoint, load_params, save_checkpoint
from netweave.mxnet.io import NDArrayIter, ResizeIter
from netweave.mxnet.module import BatchEndParam, BucketingModule, Module
from netweave.mxnet.ndarray.array import NDArray

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]


class FeedForward:
    """A symbol with its arrays, in the manner of MXNet's first scripts; a ``Module`` does the work.

    Args:
        symbol: The net.
        ctx: The device, or several.
        num_epoch: Epochs of a fit.
        epoch_size: Batches in an epoch; all if None.
        optimizer: Its name, or an optimizer.
        initializer: For arrays that are not given; Uniform(0.01) if None.
        numpy_batch_size: Records in a batch of arrays of NumPy's.
        arg_params: Arrays to begin with.
        aux_params: The same of auxiliary states.
        allow_extra_params: Whether there may be arrays that the net does not have.
        begin_epoch: Number of the first epoch.
        kwargs: Settings of the optimizer.
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = None,
        numpy_batch_size: int = 128,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        self.symbol, self.ctx, self.num_epoch, self.epoch_size = symbol, ctx, num_epoch, epoch_size
        self.optimizer, self.initializer, self.numpy_batch_size = optimizer, initializer, numpy_batch_size
        self.arg_params, self.aux_params = arg_params, aux_params
        self.allow_extra_params, self.begin_epoch = allow_extra_params, begin_epoch
        self.kwargs = kwargs
        self._module: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        monitor: Any = None,
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train; see ``Module.fit``.

        Raises:
            UsageError: There are labels missing, or no ``num_epoch``.
        """
        data = self._iterator(X, y, training=True)
        if self.epoch_size is not None:
            data = ResizeIter(data, self.epoch_size, reset_internal=False)
        if isinstance(eval_data, tuple | list):
            eval_data = self._iterator(*eval_data, training=True, shuffle=False)
        self._module = self._make(data, logger, work_load_list)
        given = {"arg_params": self.arg_params, "aux_params": self.aux_params}
        self._module.fit(
            data,
            eval_data,
            eval_metric=eval_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback,
            kvstore=kvstore,
            optimizer=self.optimizer,
            optimizer_params=self.kwargs,
            initializer=self.initializer,
            allow_missing=True,
            begin_epoch=self.begin_epoch,
            num_epoch=self.num_epoch,
            monitor=monitor,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
            **given,
        )
        self.arg_params, self.aux_params = self._module.get_params()

    def _make(self, data: Any, logger: Any, shares: Any) -> Any:
        labels = [one[0] for one in data.provide_label or ()]
        settings = {
            "logger": logger or logging,
            "context": self.ctx,
            "work_load_list": shares,
        }
        names = [one[0] for one in data.provide_data]
        if isinstance(self.symbol, Symbol):
            return Module(self.symbol, names, labels, **settings)
        return BucketingModule(
            lambda key: (self.symbol(key), names, labels), data.default_bucket_key, **settings
        )

    def predict(
        self, X: Any, num_batch: int | None = None, return_data: bool = False, reset: bool = True
    ) -> Any:
        """Return the outputs for all records as arrays of NumPy's.

        Args:
            X: The batches, or an array of all records.
            num_batch: At most so many batches.
            return_data: Whether data and labels are returned, too.
            reset: Whether the iterator begins anew first.
        """
        data = self._iterator(X, None, training=False)
        module = self._bound(data)
        outputs, inputs, labels = [], [], []
        for found, _, batch in module.iter_predict(data, num_batch, reset):
            outputs.append([one.asnumpy() for one in found])
            stop = batch.data[0].shape[0] - (batch.pad or 0)
            inputs.append([one.asnumpy()[:stop] for one in batch.data])
            labels.append([one.asnumpy()[:stop] for one in batch.label or ()])
        joined = _columns(outputs)
        return (joined, _columns(inputs), _columns(labels)) if return_data else joined

    def score(
        self,
        X: Any,
        y: Any = None,
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> float:
        """Return a metric over all records."""
        data = self._iterator(X, y, training=y is not None, shuffle=False)
        scores = self._bound(data, labels=True).score(
            data, eval_metric, num_batch, batch_end_callback, reset=reset
        )
        return float(scores[0][1])

    def _bound(self, data: Any, *, labels: bool = False) -> Any:
        if self.arg_params is None:
            raise UsageError("the model has no values yet; call fit first, or give arg_params")
        known = self.symbol.list_arguments()
        names = [one[0] for one in data.provide_label or () if one[0] in known] if labels else []
        module = Module(self.symbol, [one[0] for one in data.provide_data], names, context=self.ctx)
        module.bind(data.provide_data, data.provide_label if names else None, for_training=False)
        module.init_params(None, self.arg_params, self.aux_params, allow_missing=True, allow_extra=True)
        return module

    def _iterator(self, X: Any, y: Any, *, training: bool, shuffle: bool | None = None) -> Any:
        if not isinstance(X, np.ndarray | NDArray):
            return X
        if y is None and training:
            raise UsageError("labels are missing: give y beside the array of all records")
        size = min(self.numpy_batch_size, X.shape[0])
        mixed = training if shuffle is None else shuffle
        last = "roll_over" if mixed else "pad"
        labels = None if y is None else np.asarray(y).reshape(len(y), *np.shape(y)[1:])
        return NDArrayIter(X, labels, size, shuffle=mixed, last_batch_handle=last)

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write a checkpoint."""
        number = self.num_epoch if epoch is None else epoch
        save_checkpoint(prefix, number or 0, self.symbol, self.arg_params, self.aux_params)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """Return a model from a checkpoint."""
        symbol, args, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx, arg_params=args, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol: Any, X: Any, y: Any = None, **kwargs: Any) -> FeedForward:
        """Return a model that has been fitted."""
        of_fit = (
            "eval_data",
            "eval_metric",
            "epoch_end_callback",
            "batch_end_callback",
            "kvstore",
            "logger",
            "work_load_list",
            "eval_end_callback",
            "eval_batch_end_callback",
        )
        fitting = {name: kwargs.pop(name) for name in of_fit if name in kwargs}
        made = FeedForward(symbol, **kwargs)
        made.fit(X, y, **fitting)
        return made


def _columns(rows: list[list[np.ndarray]]) -> Any:
    joined = [np.concatenate(arrays) for arrays in zip(*rows, strict=True)]
    return joined[0] if len(joined) == 1 else joined

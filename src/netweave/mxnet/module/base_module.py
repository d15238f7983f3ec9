"""The base of modules: fitting, scoring and predicting, as MXNet writes them over single steps.

``fit`` is a loop over public methods: subclasses, of scripts too, override some of them (decision 0169).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import metric
from netweave.mxnet import ndarray as nd
from netweave.mxnet.initializer import Uniform
from netweave.mxnet.io.batch import DataBatch
from netweave.mxnet.module.fitting import BatchEndParam, FitSettings, call, run_fit
from netweave.mxnet.ndarray.array import NDArray
from netweave.training.loop import FitCheckpoints


class BaseModule:
    """A net with arrays; see ``Module``.

    Args:
        logger: Where a fit logs.

    Attributes:
        binded: Whether sizes are known.
        params_initialized: Whether arrays have values.
        optimizer_initialized: Whether there is an optimizer.
        for_training: Whether it is bound for training.
        inputs_need_grad: Whether gradients of the data are computed.
        has_fit_state: Whether checkpoints of a fit hold all that the rest of it depends on.
    """

    has_fit_state: ClassVar[bool] = False

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = self.params_initialized = self.optimizer_initialized = False
        self.for_training = self.inputs_need_grad = False
        self._symbol: Any = None
        self._total_exec_bytes = 0

    # What subclasses have.

    data_names: list[str]
    output_names: list[str]

    @property
    def data_shapes(self) -> Any:
        """Names and sizes of the data."""
        raise NotImplementedError

    @property
    def label_shapes(self) -> Any:
        """Names and sizes of the labels."""
        raise NotImplementedError

    @property
    def output_shapes(self) -> Any:
        """Names and sizes of the outputs."""
        raise NotImplementedError

    @property
    def symbol(self) -> Any:
        """The net."""
        return self._symbol

    def bind(self, data_shapes: Any, label_shapes: Any = None, *args: Any, **kwargs: Any) -> None:
        """Make the net for some sizes."""
        raise NotImplementedError

    def init_params(self, *args: Any, **kwargs: Any) -> None:
        """Give arrays their first values."""
        raise NotImplementedError

    def init_optimizer(self, *args: Any, **kwargs: Any) -> None:
        """Make the optimizer."""
        raise NotImplementedError

    def get_params(self) -> tuple[Any, Any]:
        """Return the arrays that are learnt, and the auxiliary states."""
        raise NotImplementedError

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch."""
        raise NotImplementedError

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients."""
        raise NotImplementedError

    def update(self) -> None:
        """Change the arrays by their gradients."""
        raise NotImplementedError

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last ``forward``."""
        raise NotImplementedError

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data."""
        raise NotImplementedError

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last ``forward``."""
        raise NotImplementedError

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at values of the net."""
        raise NotImplementedError

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Make ready for the next batch; a net of several sizes chooses its size here."""

    # What they share.

    def forward_backward(self, data_batch: Any) -> None:
        """Compute outputs and gradients of a batch."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def set_params(
        self,
        arg_params: Any,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Replace arrays."""
        self.init_params(
            initializer=None,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
            allow_extra=allow_extra,
        )

    def save_params(self, fname: str) -> None:
        """Write the arrays to a ``.params`` file."""
        args, states = self.get_params()
        nd.save(
            fname,
            {f"arg:{k}": v for k, v in args.items()} | {f"aux:{k}": v for k, v in states.items()},
        )

    def load_params(self, fname: str) -> None:
        """Take the arrays of a ``.params`` file.

        Raises:
            ReadError: The file cannot be read, or is none.
        """
        arrays = nd.load(fname)
        args = {k.removeprefix("arg:"): v for k, v in arrays.items() if k.startswith("arg:")}
        states = {k.removeprefix("aux:"): v for k, v in arrays.items() if k.startswith("aux:")}
        self.set_params(args, states)

    def score(
        self,
        eval_data: Any,
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, float]]:
        """Return metrics over batches, in test mode.

        Args:
            eval_data: The batches.
            eval_metric: A metric, its name, or several.
            num_batch: At most so many batches.
            batch_end_callback: Called after each batch.
            score_end_callback: Called in the end.
            reset: Whether the iterator begins anew first.
            epoch: For callbacks.
            sparse_row_id_fn: As MXNet has it.

        Raises:
            UsageError: The net is not bound, or has no values.
        """
        self._require_ready()
        if reset:
            eval_data.reset()
        eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        count = 0
        for nbatch, batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(batch)
            self.forward(batch, is_train=False)
            self.update_metric(eval_metric, batch.label)
            call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            count += 1
        call(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return list(eval_metric.get_global_name_value())

    def iter_predict(
        self, eval_data: Any, num_batch: int | None = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[tuple[list[NDArray], int, Any]]:
        """Yield outputs, number and batch, without what only fills batches."""
        self._require_ready()
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(batch)
            self.forward(batch, is_train=False)
            yield [_without_pad(one, batch.pad) for one in self.get_outputs()], nbatch, batch

    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """Return the outputs for all records: an array, or a list where there are several outputs.

        Args:
            eval_data: The batches, or an array of all records.
            num_batch: At most so many batches.
            merge_batches: Whether batches are joined; else a list of outputs for each.
            reset: Whether the iterator begins anew first.
            always_output_list: Whether the only output is in a list, too.
            sparse_row_id_fn: As MXNet has it.
        """
        if isinstance(eval_data, NDArray | np.ndarray):
            array = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            self._require_ready()
            self.forward(DataBatch([array]), is_train=False)
            return self.get_outputs()[0]
        of_batches = [
            [one.copy() for one in outputs]
            for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset)
        ]
        if not of_batches or not merge_batches:
            return of_batches
        if len({len(outputs) for outputs in of_batches}) != 1:
            raise UsageError("batches have different numbers of outputs; pass merge_batches=False")
        joined = [nd.concatenate(list(outputs)) for outputs in zip(*of_batches, strict=True)]
        return joined[0] if len(joined) == 1 and not always_output_list else joined

    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = None,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
        *,
        checkpoint_prefix: str | Path | None = None,
        checkpoint_interval: int | None = None,
        keep: int | None = None,
        resume: bool | str | Path = False,
    ) -> None:
        """Train; Netweave's own are the four arguments that MXNet does not have.

        With checkpoints, the first Ctrl-C writes one and stops after the present update.

        Args:
            train_data: The batches.
            eval_data: Batches to evaluate on after each epoch.
            eval_metric: A metric, its name, or several.
            epoch_end_callback: Called with (epoch, symbol, arg_params, aux_params).
            batch_end_callback: Called with a ``BatchEndParam``.
            kvstore: What sums gradients over devices, and over workers.
            optimizer: An optimizer, or its name.
            optimizer_params: Its settings.
            eval_end_callback: Called after each evaluation.
            eval_batch_end_callback: Called after each of its batches.
            initializer: For arrays without values; Uniform(0.01) if None.
            arg_params: Arrays to begin with.
            aux_params: The same of auxiliary states.
            allow_missing: Whether ``arg_params`` may leave some out.
            force_rebind: Whether the net is made anew.
            force_init: Whether values that are there are replaced.
            begin_epoch: Number of the first epoch.
            num_epoch: Number of the epoch to end before.
            validation_metric: For ``eval_data``; ``eval_metric`` by default.
            monitor: Looks at values of the net.
            sparse_row_id_fn: As MXNet has it.
            checkpoint_prefix: Path that the names of checkpoints start with; None to write none. Each worker
                of a distributed store writes its own.
            checkpoint_interval: Updates between two checkpoints; None for one at the end of each epoch.
            keep: Number of checkpoints to keep; 3 by default.
            resume: A checkpoint to resume from, bit for bit; True for the latest complete one. Pass the same
                data, metric and optimizer again. Iterators of ``mx.io`` resume in their order; any other has
                to yield the same batches in each epoch, or to have the methods ``state`` and ``restore`` of
                ``DataIter``.

        Raises:
            UsageError: There is no ``num_epoch``, or an argument is wrong.
            SourceError: Sizes do not fit.
            UnsupportedError: The module cannot write checkpoints of a fit.
        """
        if num_epoch is None:
            raise UsageError("fit needs num_epoch, the number of epochs")
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=Uniform(0.01) if initializer is None else initializer,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
        )
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        settings = FitSettings(
            train_data=train_data,
            eval_data=eval_data,
            eval_metric=metric.create(eval_metric),
            validation_metric=validation_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
            begin_epoch=begin_epoch,
            num_epoch=num_epoch,
            monitor=monitor,
        )
        run_fit(self, settings, FitCheckpoints(checkpoint_prefix, checkpoint_interval, keep, resume))

    def _begin_epoch(self, train_data: Any, epoch: int) -> None:
        """Do what an epoch of a fit begins with."""

    def _require_ready(self) -> None:
        if not (self.binded and self.params_initialized):
            raise UsageError(
                "the module has no sizes or no values yet; call bind and init_params, or fit, first"
            )


def _without_pad(array: NDArray, pad: int | None) -> NDArray:
    return array[: array.shape[0] - (pad or 0)]

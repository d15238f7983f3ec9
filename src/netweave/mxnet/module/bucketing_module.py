"""``mx.mod.BucketingModule``: nets of several sizes that share their arrays."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from netweave.errors import UsageError
from netweave.mxnet import checkpoint
from netweave.mxnet.module.base_module import BaseModule
from netweave.mxnet.module.module import Module


class BucketingModule(BaseModule):
    """A net for each bucket key, made when it is first needed.

    Args:
        sym_gen: From a key to (symbol, data_names, label_names).
        default_bucket_key: Key of the net that is bound first, and has all arrays.
        logger: Where a fit logs.
        context: The device, or several.
        work_load_list: Shares of a batch for each device.
        fixed_param_names: Arrays that keep their values.
        state_names: Inputs that are states.
        group2ctxs: The contexts of groups of layers, as for ``Module``.
        compression_params: Compression of what is pushed to the store.

    Raises:
        UsageError: There is no default key.
    """

    def __init__(
        self,
        sym_gen: Callable[[Any], Any],
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Any = None,
        work_load_list: Any = None,
        fixed_param_names: Any = None,
        state_names: Any = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger)
        if default_bucket_key is None:
            raise UsageError("a BucketingModule needs a default_bucket_key, that of the largest net")
        self._sym_gen, self._default_bucket_key = sym_gen, default_bucket_key
        self._settings = {
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        self._buckets: dict[Any, Module] = {}
        self._curr_bucket_key = default_bucket_key
        self._monitor: Any = None
        self._first = self._generate(default_bucket_key)

    def _generate(self, key: Any) -> Module:
        made = self._sym_gen(key)
        symbol, data_names, label_names = (
            made if isinstance(made, tuple) else (made, ("data",), ("softmax_label",))
        )
        return Module(symbol, data_names, label_names, self.logger, **self._settings)

    @property
    def _current(self) -> Module:
        return self._buckets.get(self._curr_bucket_key, self._first)

    _curr_module = _current

    @property
    def data_names(self) -> list[str]:  # type: ignore[override]  # MXNet has a property where the base has a field
        """Inputs that are data."""
        return self._current.data_names

    @property
    def output_names(self) -> list[str]:  # type: ignore[override]  # MXNet has a property where the base has a field
        """Names of the outputs."""
        return self._current.output_names

    @property
    def data_shapes(self) -> Any:
        """Names and sizes of the data of the present net."""
        return self._current.data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and sizes of the labels of the present net."""
        return self._current.label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and sizes of the outputs of the present net."""
        return self._current.output_shapes

    @property
    def symbol(self) -> Any:
        """The present net."""
        return self._current.symbol

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
        bucket_key: Any = None,
    ) -> None:
        """Make the net of the default key for some sizes; see ``Module.bind``."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._buckets = {self._default_bucket_key: self._first}
        self._first.bind(
            data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind=True, grad_req=grad_req
        )
        self._curr_bucket_key = self._default_bucket_key
        self.binded = True
        self.params_initialized = self._first.params_initialized

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Go on with the net of a key, which shares the arrays of the others.

        Raises:
            UsageError: The module is not bound.
            SourceError: Sizes do not fit.
        """
        if not self.binded:
            raise UsageError("call bind before switch_bucket")
        if bucket_key not in self._buckets:
            made = self._generate(bucket_key)
            made.bind(
                data_shapes,
                label_shapes,
                self.for_training,
                self.inputs_need_grad,
                shared_module=self._first,
                grad_req=self._grad_req,
            )
            if self._monitor is not None:
                made.install_monitor(self._monitor)
            self._buckets[bucket_key] = made
        self._curr_bucket_key = bucket_key
        current = self._current
        current.params_initialized = self.params_initialized
        if self.optimizer_initialized and not current.optimizer_initialized:
            current.borrow_optimizer(self._first)

    def init_params(self, *args: Any, **kwargs: Any) -> None:
        """Give arrays their first values; see ``Module.init_params``."""
        if self.params_initialized and not kwargs.get("force_init"):
            return
        self._first.init_params(*args, **kwargs)
        self.params_initialized = True
        for module in self._buckets.values():
            module.params_initialized = True

    def get_params(self) -> tuple[Any, Any]:
        """Return the arrays that are learnt, and the auxiliary states."""
        return self._first.get_params()

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the inputs that are states."""
        return self._current.get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set inputs that are states."""
        self._current.set_states(states, value)

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer; see ``Module.init_optimizer``."""
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self._first.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not self._first:
                module.borrow_optimizer(self._first)
        self.optimizer_initialized = True

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Make ready the net of a batch, and come back to the present one."""
        self._require_ready()
        present = self._curr_bucket_key
        self._switch_to(data_batch)
        self._curr_bucket_key = present

    def _switch_to(self, batch: Any) -> None:
        key = self._default_bucket_key if batch.bucket_key is None else batch.bucket_key
        shapes = batch.provide_data if batch.provide_data is not None else self._first.data_shapes
        labels = batch.provide_label if batch.provide_data is not None else self._first.label_shapes
        self.switch_bucket(key, shapes, labels)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch by the net of its key."""
        self._require_ready()
        self._switch_to(data_batch)
        self._current.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients."""
        self._current.backward(out_grads)

    def update(self) -> None:
        """Change the arrays by their gradients."""
        self._current.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last ``forward``."""
        return self._current.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data."""
        return self._current.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last ``forward``."""
        self._current.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at values of every net."""
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = False
    ) -> None:
        """Write the symbol of the default key and the arrays."""
        checkpoint.save_checkpoint(prefix, epoch, self._first.symbol, *self.get_params())
        if save_optimizer_states:
            self._first.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: Any = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> Any:
        """Return a module with the arrays of a checkpoint."""
        args, states = checkpoint.load_params(prefix, epoch)
        made = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        made._first._loaded = (args, states)
        made.params_initialized = made._first.params_initialized = True
        return made

"""``mx.mod.SequentialModule``: modules one behind the other."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from netweave.errors import UsageError
from netweave.mxnet.io.batch import DataBatch, DataDesc
from netweave.mxnet.module.base_module import BaseModule


class SequentialModule(BaseModule):
    """Modules of which each takes the outputs of the one before.

    Args:
        logger: Where a fit logs.
    """

    META_TAKE_LABELS: ClassVar[str] = "take_labels"
    META_AUTO_WIRING: ClassVar[str] = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger)
        self._modules: list[tuple[Any, dict[str, bool]]] = []
        self._label_shapes: Any = None

    def add(self, module: Any, **kwargs: bool) -> SequentialModule:
        """Add a module: with ``take_labels`` it has the labels, with ``auto_wiring`` any names of data.

        Raises:
            UsageError: There is no such word.
        """
        unknown = [key for key in kwargs if key not in {self.META_TAKE_LABELS, self.META_AUTO_WIRING}]
        if unknown:
            raise UsageError(f"unknown word {unknown[0]!r}; expected take_labels or auto_wiring")
        self._modules.append((module, kwargs))
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def _each(self) -> list[Any]:
        return [module for module, _ in self._modules]

    @property
    def data_names(self) -> list[str]:  # type: ignore[override]  # MXNet has a property where the base has a field
        """Inputs of the first module."""
        return list(self._each[0].data_names) if self._modules else []

    @property
    def output_names(self) -> list[str]:  # type: ignore[override]  # MXNet has a property where the base has a field
        """Names of the outputs of the last module."""
        return list(self._each[-1].output_names) if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """Names and sizes of the data."""
        return self._each[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and sizes of the labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and sizes of the outputs."""
        return self._each[-1].output_shapes

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Bind each module to the sizes of the outputs of the one before."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if not self._modules:
            raise UsageError("a SequentialModule without modules; add some first")
        self.for_training, self.inputs_need_grad, self._label_shapes = (
            for_training,
            inputs_need_grad,
            label_shapes,
        )
        shapes = [one if isinstance(one, DataDesc) else DataDesc(*one) for one in data_shapes]
        for number, (module, meta) in enumerate(self._modules):
            if meta.get(self.META_AUTO_WIRING):
                shapes = [DataDesc(name, one[1]) for name, one in zip(module.data_names, shapes, strict=True)]
            module.bind(
                data_shapes=shapes,
                label_shapes=label_shapes if meta.get(self.META_TAKE_LABELS) else None,
                for_training=for_training,
                inputs_need_grad=for_training and (inputs_need_grad or number > 0),
                force_rebind=force_rebind,
                grad_req=grad_req,
            )
            shapes = [DataDesc(*one) for one in module.output_shapes]
        self.binded = True

    def init_params(
        self,
        initializer: Any = None,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give the arrays of each module their first values.

        Raises:
            UsageError: Two modules have an array of the same name.
        """
        if self.params_initialized and not force_init:
            return
        owners: dict[str, int] = {}
        for number, module in enumerate(self._each):
            module.init_params(
                initializer,
                arg_params,
                aux_params,
                allow_missing=allow_missing,
                force_init=force_init,
                allow_extra=True,
            )
            for name in [name for arrays in module.get_params() for name in arrays]:
                if owners.setdefault(name, number) != number:
                    raise UsageError(f"modules {owners[name]} and {number} both have an array {name!r}")
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays of all modules."""
        args: dict[str, Any] = {}
        states: dict[str, Any] = {}
        for module in self._each:
            own, aux = module.get_params()
            args |= own
            states |= aux
        return args, states

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make an optimizer for each module."""
        for module in self._each:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, module by module."""
        data = data_batch.data
        for module in self._each:
            batch = DataBatch(data, data_batch.label, data_batch.pad, data_batch.index)
            module.forward(batch, is_train=is_train)
            data = module.get_outputs()

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients, from the last module to the first."""
        for number, module in reversed(list(enumerate(self._each))):
            module.backward(out_grads=out_grads)
            if number:
                out_grads = module.get_input_grads()

    def update(self) -> None:
        """Change the arrays of all modules."""
        for module in self._each:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last module."""
        return self._each[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data of the first module."""
        return self._each[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the modules that have the labels."""
        for module, meta in self._modules:
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at values of all modules."""
        for module in self._each:
            module.install_monitor(mon)

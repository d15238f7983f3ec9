"""``mx.mod.PythonModule``: a module without arrays, written in Python."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from netweave.mxnet import ndarray as nd
from netweave.mxnet.module.base_module import BaseModule
from netweave.mxnet.ndarray.array import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class PythonModule(BaseModule):
    """A module without arrays: a subclass has ``forward``, ``backward`` and ``_compute_output_shapes``.

    Args:
        data_names: Its inputs.
        label_names: Its labels.
        output_names: Its outputs.
        logger: Where a fit logs.
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger)
        self.data_names, self.output_names = list(data_names), list(output_names)
        self._label_names = list(label_names or ())
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_shapes(self) -> Any:
        """Names and sizes of the data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and sizes of the labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and sizes of the outputs."""
        return self._output_shapes

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Take in sizes."""
        if self.binded and not force_rebind:
            return
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> Any:
        raise NotImplementedError

    def init_params(self, *args: Any, **kwargs: Any) -> None:
        """There are no arrays."""
        self.params_initialized = True

    def init_optimizer(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to update."""
        self.optimizer_initialized = True

    def get_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return nothing."""
        return {}, {}

    def update(self) -> None:
        """There is nothing to update."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs, if there are labels."""
        if self._label_shapes is not None:
            eval_metric.update(labels, self.get_outputs())

    def install_monitor(self, mon: Any) -> None:
        """There is nothing to look at."""


class PythonLossModule(PythonModule):
    """A loss written in Python: hands its input on, and has a gradient of its own.

    Args:
        name: What its outputs begin with.
        data_names: Its input.
        label_names: Its label.
        logger: Where a fit logs.
        grad_func: From scores and labels to the gradient of the scores.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        self._name, self._grad_func = name, grad_func
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None

    def _compute_output_shapes(self) -> Any:
        return [(f"{self._name}_output", self._data_shapes[0][1])]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Take in scores, and labels in training."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the scores."""
        return [self._scores] if merge_multi_context else [[self._scores]]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores."""
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError("give grad_func, or override _backward_impl")
        found = self._grad_func(self._scores, self._labels)
        self._scores_grad = found if isinstance(found, NDArray) else nd.array(found)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradient of the scores."""
        return [self._scores_grad] if merge_multi_context else [[self._scores_grad]]

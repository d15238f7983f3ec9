"""Modules of MXNet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import checkpoint
from netweave.mxnet import ndarray as nd
from netweave.mxnet.context import as_contexts
from netweave.mxnet.executor import Executor, simple_bind
from netweave.mxnet.initializer import InitDesc, Uniform
from netweave.mxnet.io.batch import DataDesc
from netweave.mxnet.module.base_module import BaseModule
from netweave.mxnet.module.optimized_module import OptimizedModule
from netweave.mxnet.ndarray.array import NDArray


def description(given: Any) -> DataDesc:
    """Return the description of an input."""
    return given if isinstance(given, DataDesc) else DataDesc(*given)


def batch_axis(described: DataDesc) -> int:
    """Return the axis of the batch."""
    return max(0, DataDesc.get_batch_axis(described.layout))


def with_batch(described: DataDesc, size: int) -> tuple[int, ...]:
    """Return the sizes of an input for another batch size."""
    shape = list(described[1])
    if shape:
        shape[batch_axis(described)] = size
    return tuple(shape)


def split_batch(described: DataDesc, shares: Sequence[float]) -> list[tuple[int, int]]:
    """Return first and last record of each device; the last one has the remainder."""
    size = described[1][batch_axis(described)]
    if size < len(shares):
        raise UsageError(f"a batch of {size} records cannot be split over {len(shares)} devices")
    total, bounds, start = sum(shares), [], 0
    for number, share in enumerate(shares):
        stop = size if number == len(shares) - 1 else start + round(share * size / total)
        bounds.append((start, stop))
        start = stop
    return bounds


def shared_arrays(executor: Executor, names: Sequence[str]) -> Any:
    """Return the arrays of an executor that another one may share: not those of its inputs."""
    kept = {name: executor.arg_dict[name] for name in names if name in executor.arg_dict}
    return SimpleNamespace(arg_dict=kept, aux_dict=executor.aux_dict)


def copy_values(name: str, value: Any, own: NDArray) -> None:
    """Copy values to an array of the net.

    Raises:
        UsageError: They have another shape.
    """
    if tuple(value.shape) != own.shape:
        raise UsageError(f"array {name!r} has the shape {tuple(value.shape)}, expected {own.shape}")
    if value is not own:
        own[:] = value


def join_arrays(arrays: list[NDArray], axis: int) -> NDArray:
    """Return the parts of devices as one array."""
    if len(arrays) == 1:
        return arrays[0]
    place = arrays[0].tensor.device
    return NDArray(torch.cat([one.tensor.to(place) for one in arrays], axis))


def following_sizes(
    batch: Any, data: Sequence[DataDesc], labels: Sequence[DataDesc] | None
) -> tuple[Any, Any] | None:
    """Return data and labels of a batch of other sizes; None where they are as before."""
    shapes = [array.shape for array in batch.data]
    if shapes == [tuple(one[1]) for one in data]:
        return None
    given = getattr(batch, "provide_data", None) or [
        DataDesc(one[0], shape, one.dtype, one.layout) for one, shape in zip(data, shapes, strict=True)
    ]
    own_labels = getattr(batch, "provide_label", None)  # classes of scripts may have data and label alone
    if own_labels or not labels:
        return given, own_labels
    own = [array.shape for array in batch.label or ()] or [(shapes[0][0], *one[1][1:]) for one in labels]
    pairs = zip(labels, own, strict=True)
    return given, [DataDesc(one[0], shape, one.dtype, one.layout) for one, shape in pairs]


def _groups_of(group2ctxs: Any, count: int) -> list[dict[str, Any]]:
    """Return the contexts of groups for each of so many devices.

    Raises:
        UsageError: There are more or fewer than devices.
    """
    if isinstance(group2ctxs, list | tuple):
        numbers, groups = {len(group2ctxs)}, [dict(one) for one in group2ctxs]
    else:
        lists = {group: as_contexts(ctx) for group, ctx in (group2ctxs or {}).items()}
        numbers = {len(contexts) for contexts in lists.values()} - {1}
        groups = [
            {group: contexts[min(number, len(contexts) - 1)] for group, contexts in lists.items()}
            for number in range(count)
        ]
    if numbers - {count}:
        given = sorted(numbers)[0]
        raise UsageError(
            f"group2ctxs has {given} entries, and the module {count} contexts; give one for each"
        )
    return groups


class Module(OptimizedModule):
    """A symbol with its arrays, on one or several devices.

    Args:
        symbol: The net.
        data_names: Inputs that are data.
        label_names: Inputs that are labels; those that the net does not have are left out.
        logger: Where a fit logs.
        context: The device, or several that split each batch.
        work_load_list: Shares of a batch for each device; equal ones if None.
        fixed_param_names: Arrays that keep their values.
        state_names: Inputs that ``set_states`` sets.
        group2ctxs: The context of each group of layers, one or one for each device, or such a dict for each
            device; groups must be on the device itself (``executor.require_one_device``).
        compression_params: Compression of what is pushed to the store.

    Raises:
        UsageError: The net has no such input.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Any = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(symbol, as_contexts(context), logger=logger, compression=compression_params)
        self._shares = list(work_load_list or [1.0] * len(self._contexts))
        known = symbol.list_arguments()
        self.data_names = list(data_names or ())
        self.label_names = [name for name in label_names or () if name in known]
        self._state_names = list(state_names or ())
        self._groups = _groups_of(group2ctxs, len(self._contexts))
        self._fixed = list(fixed_param_names or ())
        for name in [*self.data_names, *self._state_names, *self._fixed]:
            if name not in known:
                raise UsageError(f"the symbol has no argument {name!r}; it has: {', '.join(known)}")
        inputs = {*self.data_names, *self.label_names, *self._state_names}
        self._param_names = [name for name in known if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None
        self._loaded: tuple[Any, Any] | None = None
        self._grad_req: Any = "write"

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Return a module from a checkpoint.

        Raises:
            ReadError: A file cannot be read.
        """
        symbol, args, states = checkpoint.load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._loaded = (args, states)
        module.params_initialized = True
        if load_optimizer_states:
            module._states_file = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write symbol and arrays, and what the optimizer keeps if asked to."""
        checkpoint.save_checkpoint(prefix, epoch, self._symbol, *self.get_params())
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    # Sizes.

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Names and sizes of the data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Names and sizes of the labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and sizes of the outputs."""
        if self.execs[0].outputs:
            shapes = [one.shape for one in self.get_outputs()]
        else:
            given = {one[0]: one[1] for one in [*self._data_shapes, *(self._label_shapes or ())]}
            shapes = [tuple(map(int, shape)) for shape in self._symbol.infer_shape(**given)[1]]
        return list(zip(self.output_names, shapes, strict=True))

    @property
    def param_names(self) -> list[str]:
        """Names of the arrays that are learnt."""
        return self._param_names

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """The arrays that are learnt: for each, one on every device."""
        return [[one.arg_dict[name] for one in self.execs] for name in self._param_names]

    @property
    def grad_arrays(self) -> list[list[NDArray]]:
        """Their gradients, likewise; without those that have none."""
        first = self.execs[0].grad_dict
        return [[one.grad_dict[name] for one in self.execs] for name in self._param_names if name in first]

    @property
    def _exec_group(self) -> Module:
        """MXNet's group of executors, for scripts that look into it: the module itself."""
        return self

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Module | None = None,
        grad_req: Any = "write",
    ) -> None:
        """Make the net for some sizes.

        Args:
            data_shapes: Names and sizes of the data, the batch first.
            label_shapes: The same of the labels.
            for_training: Whether gradients are computed.
            inputs_need_grad: Whether those of the data are, too.
            force_rebind: Whether it is made anew.
            shared_module: Whose arrays it computes with.
            grad_req: ``write``, ``add`` or ``null``, for all or by name.

        Raises:
            SourceError: Sizes do not fit.
            UsageError: There is no such input.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self.get_params() if self.binded and self.params_initialized else self._loaded
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._bind_to(data_shapes, label_shapes, None if shared_module is None else shared_module.execs)
        self.binded = True
        if shared_module is not None and shared_module.params_initialized:
            self.params_initialized = True
        elif kept is not None:
            self._loaded = None
            self._set(*kept)
            self.params_initialized = True

    def _bind_to(self, data_shapes: Any, label_shapes: Any, shared: list[Executor] | None) -> None:
        self._data_shapes = [description(one) for one in data_shapes]
        labels = [description(one) for one in label_shapes or ()]
        self._label_shapes = [one for one in labels if one[0] in self.label_names] or None
        self._bounds = split_batch(self._data_shapes[0], self._shares)
        reqs = self._requests()
        described = [*self._data_shapes, *(self._label_shapes or ())]
        types = {one[0]: one.dtype for one in described if np.dtype(one.dtype) != np.float32}
        self.execs = []
        for number, (context, (start, stop)) in enumerate(zip(self._contexts, self._bounds, strict=True)):
            shapes = {one[0]: with_batch(one, stop - start) for one in described}
            same = None if shared is None else shared_arrays(shared[number], self._param_names)
            self.execs.append(
                simple_bind(
                    self._symbol,
                    context,
                    grad_req=reqs,
                    type_dict=types,
                    shared_exec=same,
                    group2ctx=self._groups[number],
                    shapes=shapes,
                )
            )
            if shared is not None:
                self.execs[-1].share_memories(shared[number])

    def _requests(self) -> dict[str, str]:
        if not self.for_training:
            return {}
        asked = self._grad_req

        def of(name: str) -> str:
            return asked if isinstance(asked, str) else str(asked.get(name, "null"))

        reqs = {name: of(name) for name in self._param_names if name not in self._fixed}
        if self.inputs_need_grad:
            reqs |= dict.fromkeys(self.data_names, "write" if asked != "null" else asked)
        return reqs

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Go on with other sizes and the same arrays."""
        self._bind_to(data_shapes, label_shapes, self.execs)

    # Values.

    def init_params(
        self,
        initializer: Any = None,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give arrays their first values.

        Args:
            initializer: For arrays that are not given; Uniform(0.01) if None and nothing is given.
            arg_params: Arrays by name.
            aux_params: Auxiliary states by name.
            allow_missing: Whether the initializer may fill in for arrays that are left out.
            force_init: Whether values that are there are replaced.
            allow_extra: As MXNet has it: arrays that the net does not have are ignored either way.

        Raises:
            UsageError: An array is missing, or of other sizes.
        """
        if self.params_initialized and not force_init:
            return
        if not self.binded:
            raise UsageError("call bind before init_params, so that the sizes of the arrays are known")
        if initializer is None and arg_params is None:
            initializer = Uniform(0.01)
        first = self.execs[0]
        attributes = self._symbol.attr_dict()
        for names, arrays, given in (
            (self._param_names, first.arg_dict, arg_params),
            (self._aux_names, first.aux_dict, aux_params),
        ):
            for name in names:
                if given is not None and name in given:
                    copy_values(name, given[name], arrays[name])
                elif given is not None and not allow_missing:
                    spare = [f", and the net has no {one!r}" for one in given if one not in names]
                    text = f"there are no values for {name!r}{''.join(spare[:1])}"
                    raise UsageError(f"{text}; pass allow_missing=True to draw them")
                elif initializer is not None:
                    initializer(InitDesc(name, attributes.get(name), initializer), arrays[name])
        self._copy_to_others()
        self.params_initialized = True

    def _set(self, args: Mapping[str, NDArray], states: Mapping[str, NDArray]) -> None:
        first = self.execs[0]
        first.copy_params_from(args, states, allow_extra_params=True)
        self._copy_to_others()

    def _copy_to_others(self) -> None:
        first = self.execs[0]
        for other in self.execs[1:]:
            for name in [*self._param_names, *self._aux_names]:
                source, target = (
                    one.arg_dict[name] if name in one.arg_dict else one.aux_dict[name]
                    for one in (first, other)
                )
                source.copyto(target)

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return copies of the arrays: those that are learnt, and the auxiliary states.

        Raises:
            UsageError: There are none yet.
        """
        if not self.binded and self._loaded is not None:
            return self._loaded
        self._require_ready()

        def mean(arrays: list[NDArray]) -> NDArray:
            if len(arrays) == 1:
                return arrays[0].copyto(as_contexts(None)[0])
            total = torch.stack([one.tensor.double().cpu() for one in arrays]).mean(0)
            return NDArray(total.to(arrays[0].tensor.dtype))

        args = {name: mean([one.arg_dict[name] for one in self.execs]) for name in self._param_names}
        states = {name: mean([one.aux_dict[name] for one in self.execs]) for name in self._aux_names}
        return args, states

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the inputs that ``set_states`` sets."""
        return [join_arrays([one.arg_dict[name] for one in self.execs], 0) for name in self._state_names]

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set inputs that are states: to arrays, or all to one number."""
        for number, name in enumerate(self._state_names):
            for one in self.execs:
                one.arg_dict[name][:] = value if states is None else states[number]

    # Passes.

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; other sizes than before bind the net anew.

        Raises:
            UsageError: The net is not bound, or has no values.
            RunError: An operator cannot be computed.
        """
        self._require_ready()
        if isinstance(data_batch, list):
            for one, batch in zip(self.execs, data_batch, strict=True):
                self._load(one, batch, 0, None)
        else:
            self._follow_sizes(data_batch)
            for one, (start, stop) in zip(self.execs, self._bounds, strict=True):
                self._load(one, data_batch, start, stop)
        training = self.for_training if is_train is None else is_train
        for one in self.execs:
            one.forward(is_train=training)

    def _follow_sizes(self, data_batch: Any) -> None:
        following = following_sizes(data_batch, self._data_shapes, self._label_shapes)
        if following is not None:
            self.reshape(*following)

    def _load(self, executor: Executor, batch: Any, start: int, stop: int | None) -> None:
        pairs = list(zip(self._data_shapes, batch.data, strict=True))
        if self._label_shapes and batch.label:
            labels = getattr(batch, "provide_label", None) or self._label_shapes
            named = {one[0]: array for one, array in zip(labels, batch.label, strict=False)}
            pairs += [(one, named[one[0]]) for one in self._label_shapes if one[0] in named]
        for one, array in pairs:
            part = array
            if stop is not None and len(self.execs) > 1:
                axis = batch_axis(one)
                part = NDArray(array.tensor.narrow(axis, start, stop - start))
            executor.arg_dict[one[0]][:] = part

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients.

        Args:
            out_grads: Gradients of the outputs; losses ignore them.
        """
        given = [out_grads] if isinstance(out_grads, NDArray) else out_grads
        for one, (start, stop) in zip(self.execs, self._bounds, strict=True):
            parts = given
            if given is not None and len(self.execs) > 1:
                parts = [NDArray(array.tensor[start:stop]) for array in given]
            one.backward(parts)

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last ``forward``, joined over devices unless said otherwise."""
        columns = [list(arrays) for arrays in zip(*(one.outputs for one in self.execs), strict=True)]
        return [join_arrays(arrays, 0) for arrays in columns] if merge_multi_context else columns

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data.

        Raises:
            UsageError: The module was not bound with ``inputs_need_grad``.
        """
        if not self.inputs_need_grad:
            raise UsageError("bind the module with inputs_need_grad=True to have gradients of the data")
        columns = [[one.grad_dict[name] for one in self.execs] for name in self.data_names]
        return [join_arrays(arrays, 0) for arrays in columns] if merge_multi_context else columns

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last ``forward``."""
        if pre_sliced:
            labels = [nd.concatenate(list(arrays)) for arrays in zip(*labels, strict=True)]
        names = [one[0] for one in self._label_shapes or ()]
        given = dict(zip(names, labels or (), strict=False))
        eval_metric.update_dict(given, dict(zip(self.output_names, self.get_outputs(), strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at values of the net."""
        for one in self.execs:
            mon.install(one)


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
        gradient = self._grad_func(self._scores, self._labels)
        self._scores_grad = gradient if isinstance(gradient, NDArray) else nd.array(gradient)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradient of the scores."""
        return [self._scores_grad] if merge_multi_context else [[self._scores_grad]]

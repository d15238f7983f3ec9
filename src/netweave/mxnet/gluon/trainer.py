"""``gluon.Trainer``: changes parameters by their gradients."""

from __future__ import annotations

from typing import Any

from netweave.errors import UsageError
from netweave.mxnet import optimizer as opt
from netweave.mxnet.gluon.parameter import Parameter, ParameterDict
from netweave.mxnet.kvstore import KVStore, store_of
from netweave.mxnet.optimizer_states import read_into, write_states


class Trainer:
    """Sums the gradients of all devices and workers, and updates by an optimizer.

    Args:
        params: Parameters, as ``collect_params`` returns them.
        optimizer: An optimizer, or its name.
        optimizer_params: Its settings.
        kvstore: What sums gradients over workers.
        compression_params: Compression of what is pushed to the store.
        update_on_kvstore: As MXNet has it.

    Raises:
        UsageError: There is no such optimizer or setting, or something is no parameter.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Any = None,
        kvstore: Any = "device",
        compression_params: Any = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        is_named = isinstance(params, dict | ParameterDict)
        parameters = [params[name] for name in sorted(params.keys())] if is_named else list(params)
        if not all(isinstance(one, Parameter) for one in parameters):
            raise UsageError("a Trainer needs parameters, as block.collect_params() returns them")
        # numbered as in MXNet: files of states, and optimizers that remember the one before, go by the order
        self._params = {number: one for number, one in enumerate(parameters) if one.grad_req != "null"}
        self._init_optimizer(optimizer, optimizer_params)
        self._kind, self._compression = kvstore, compression_params
        self._store: KVStore | None = None
        self._begun = False

    def _init_optimizer(self, optimizer: Any, optimizer_params: Any) -> None:
        """Begin with an optimizer; scripts of 0.11 call it to change the rate."""
        settings = dict(optimizer_params or {})
        self._scale = float(settings.get("rescale_grad", 1.0))
        by_index = dict(self._params)
        if isinstance(optimizer, str):
            optimizer = opt.create(optimizer, param_dict=by_index, **settings)
        else:
            optimizer.param_dict = by_index
        self._optimizer: opt.Optimizer = optimizer
        self._updater = opt.get_updater(optimizer)

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The rate of the update that is due."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the rate."""
        self._optimizer.set_learning_rate(lr)

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        devices = max((len(one.list_data()) for one in self._params.values()), default=1)
        self._store = store_of(self._kind, devices, self._compression)
        if self._store is not None:
            for number, one in self._params.items():
                self._store.init(number, one.list_data()[0])
                if self._store.is_updating:
                    self._store.pull(number, one.list_data())
            if self._store.is_updating:
                self._store.set_optimizer(self._optimizer)

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients, divide them by the batch size and update."""
        self._begin()
        if self._store is not None and self._store.is_updating:
            self._optimizer.rescale_grad = self._scale / batch_size
            for number, one in self._params.items():
                self._store.push(number, one.list_grad(), priority=-number)
            for number, one in self._params.items():
                self._store.pull(number, one.list_data(), priority=-number)
            return
        self.allreduce_grads()
        self.update(batch_size, ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Sum the gradients over devices and workers."""
        self._begin()
        if self._store is None:
            return
        self._require_own_updates("allreduce_grads")
        for number, one in self._params.items():
            self._store.push(number, one.list_grad(), priority=-number)
            self._store.pull(number, one.list_grad(), priority=-number)

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Update by the gradients as they are, divided by the batch size."""
        self._begin()
        self._require_own_updates("update")
        self._optimizer.rescale_grad = self._scale / batch_size
        for number, one in self._params.items():
            arrays, gradients = one.list_data(), one.list_grad()
            self._updater(number, gradients[0], arrays[0])
            for other in arrays[1:]:
                arrays[0].copyto(other)

    def _require_own_updates(self, method: str) -> None:
        """Refuse what cannot be done where the store updates.

        Raises:
            UsageError: The store applies the optimizer itself, as each push comes.
        """
        if self._store is not None and self._store.is_updating:
            raise UsageError(
                f"{method}() is for gradients that a worker updates by; with dist_async call step()"
            )

    def save_states(self, fname: str) -> None:
        """Write what the optimizer keeps, in a file that MXNet's trainer reads.

        Raises:
            UsageError: The file cannot be written.
        """
        write_states(self._updater, fname)

    def load_states(self, fname: str) -> None:
        """Go on with what ``save_states`` wrote, here or in MXNet; the settings of the optimizer stay.

        Raises:
            ReadError: The file cannot be read, or holds no states.
            UsageError: It is of other parameters or another optimizer.
        """
        read_into(self._updater, fname, {number: one.data() for number, one in self._params.items()})

"""A module with an optimizer: gradients, key-value store, and the states of the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.mxnet import optimizer as opt
from netweave.mxnet.kvstore import store_of
from netweave.mxnet.module.base_module import BaseModule
from netweave.mxnet.optimizer_states import read_into, write_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.formats.mxnet.symbol import Symbol
    from netweave.mxnet.context import Context
    from netweave.mxnet.executor import Executor


class OptimizedModule(BaseModule):
    """Executors of one symbol, one for each device, whose arrays an optimizer changes.

    Args:
        symbol: The net.
        contexts: The devices.
        logger: Where a fit logs.
        compression: Compression of what is pushed to the store.

    Attributes:
        execs: The executors.
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        *,
        logger: Any,
        compression: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        self._symbol, self._contexts, self._compression = symbol, contexts, compression
        self._param_names: list[str] = []
        self.execs: list[Executor] = []
        self._bounds: list[tuple[int, int]] = []  # where each device's share of a batch begins and ends
        self._states_file: str | None = None
        self._optimizer: opt.Optimizer | None = None
        self._updater: opt.Updater | None = None
        self._kvstore: Any = None

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimizer: gradients are divided by the batch size unless it says otherwise.

        Args:
            kvstore: What sums gradients over workers: a store, its kind, or None.
            optimizer: An optimizer, or its name.
            optimizer_params: Its settings.
            force_init: Whether one that is there is replaced.

        Raises:
            UsageError: There is no such optimizer or setting.
        """
        self._require_ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        self._kvstore = store_of(kvstore, len(self._contexts), self._compression)
        batch = self._bounds[-1][1]
        if self._kvstore is not None and "dist" in self._kvstore.type and "_sync" in self._kvstore.type:
            batch *= self._kvstore.num_workers
        if isinstance(optimizer, str):
            settings = {"rescale_grad": 1.0 / batch, **dict(optimizer_params)}
            names = dict(enumerate(self._param_names))
            optimizer = opt.create(optimizer, sym=self._symbol, param_idx2name=names, **settings)
        elif optimizer.rescale_grad != 1.0 / batch:
            self.logger.warning(
                "the optimizer has rescale_grad=%g, and the batch is of %d records",
                optimizer.rescale_grad,
                batch,
            )
        self._optimizer, self._updater = optimizer, opt.get_updater(optimizer)
        self.optimizer_initialized = True
        if self._kvstore is not None:
            for number, name in enumerate(self._param_names):
                self._kvstore.init(number, self.execs[0].arg_dict[name])
                self._kvstore.pull(number, [one.arg_dict[name] for one in self.execs])
        if self._states_file is not None:
            self.load_optimizer_states(self._states_file)
            self._states_file = None

    def borrow_optimizer(self, shared_module: OptimizedModule) -> None:
        """Use the optimizer of another module."""
        self._optimizer, self._updater = shared_module._optimizer, shared_module._updater
        self._kvstore = shared_module._kvstore
        self.optimizer_initialized = True

    def update(self) -> None:
        """Change the arrays by the gradients of all devices and workers.

        Raises:
            UsageError: There is no optimizer yet.
        """
        if self._updater is None:
            raise UsageError("there is no optimizer yet; call init_optimizer first")
        first = self.execs[0]
        for number, name in enumerate(self._param_names):
            gradients = [one.grad_dict[name] for one in self.execs if name in one.grad_dict]
            if not gradients:
                continue
            total = gradients[0]
            if self._kvstore is not None:
                self._kvstore.push(number, gradients, priority=-number)
                self._kvstore.pull(number, [total], priority=-number)
            self._updater(number, total, first.arg_dict[name])
            for other in self.execs[1:]:
                first.arg_dict[name].copyto(other.arg_dict[name])

    def save_optimizer_states(self, fname: str) -> None:
        """Write what the optimizer keeps, in a file that MXNet reads.

        Raises:
            UsageError: There is no optimizer, or the file cannot be written.
        """
        if self._updater is None:
            raise UsageError("there is no optimizer yet; call init_optimizer first")
        write_states(self._updater, fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Go on with what ``save_optimizer_states`` wrote, here or in MXNet.

        Raises:
            ReadError: The file cannot be read, or holds no states.
            UsageError: It is of another net or another optimizer.
        """
        if self._updater is None:
            raise UsageError("there is no optimizer yet; call init_optimizer first")
        first = self.execs[0]
        weights = {
            number: first.arg_dict[name]
            for number, name in enumerate(self._param_names)
            if name in first.grad_dict
        }
        read_into(self._updater, fname, weights)

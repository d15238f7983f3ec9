"""A module with an optimizer: gradients, key-value store, and the states of the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import optimizer as opt
from netweave.mxnet.context import Context
from netweave.mxnet.kvstore import store_of
from netweave.mxnet.module.base_module import BaseModule
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.optimizer_states import read_into, restore_states, states_content, write_states
from netweave.runtime.backends.torch.node_memory import to_array
from netweave.training.checkpoint_file import nested

if TYPE_CHECKING:
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

    has_fit_state: ClassVar[bool] = True

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
            if self._kvstore.is_updating:
                self._kvstore.set_optimizer(optimizer)
        if self._states_file is not None:
            self.load_optimizer_states(self._states_file)
            self._states_file = None

    @property
    def kvstore(self) -> Any:
        """Store that sums gradients over devices and workers; None for one device alone."""
        return self._kvstore

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
        if self._kvstore is not None and self._kvstore.is_updating:
            self._update_on_store()
            return
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

    def _update_on_store(self) -> None:
        """Push all gradients, then pull what the store has made of the arrays."""
        updated = [(n, name) for n, name in enumerate(self._param_names) if name in self.execs[0].grad_dict]
        for number, name in updated:
            self._kvstore.push(number, [one.grad_dict[name] for one in self.execs], priority=-number)
        for number, name in updated:
            self._kvstore.pull(number, [one.arg_dict[name] for one in self.execs], priority=-number)

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
        read_into(self._updater, fname, self._updated_arrays())

    def _updated_arrays(self) -> dict[int, NDArray]:
        first = self.execs[0]
        return {
            number: first.arg_dict[name]
            for number, name in enumerate(self._param_names)
            if name in first.grad_dict
        }

    # The state of a fit, as its checkpoints hold it. Gradients are written anew by each batch.

    def fit_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what the next updates depend on, as JSON values and copies of arrays."""
        arrays: dict[str, np.ndarray] = {}
        for number, one in enumerate(self.execs):
            kept = one.aux_dict if number else {name: one.arg_dict[name] for name in self._param_names}
            group = f"device:{number}" if number else "param"
            arrays |= {f"{group}:{name}": to_array(array.tensor) for name, array in kept.items()}
            if not number:
                arrays |= {f"param:{name}": to_array(array.tensor) for name, array in one.aux_dict.items()}
            for name, memory in one.memories().items():
                arrays |= {f"memory:{number}:{name}:{key}": row for key, row in memory.capture().items()}
        assert self._updater is not None
        arrays["optimizer:states"] = np.frombuffer(states_content(self._updater), np.uint8)
        if self._kvstore is not None:
            residuals = self._kvstore.store.residuals
            arrays |= {f"store:{key}:{device}": to_array(row) for (key, device), row in residuals.items()}
        return {"rate": self._updater.optimizer.lr}, arrays

    def restore_fit_state(
        self, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray], place: str
    ) -> None:
        """Go on where ``fit_state`` was called.

        Args:
            state: Its JSON values.
            arrays: Its arrays.
            place: The checkpoint, for messages.

        Raises:
            UsageError: The checkpoint belongs to another net or optimizer.
        """
        assert self._updater is not None
        for number, one in enumerate(self.execs):
            own = {**{name: one.arg_dict[name] for name in self._param_names}, **one.aux_dict}
            stored = dict(nested(arrays, "param"))
            if wrong := [name for name in {**own, **stored} if not _fits(own.get(name), stored.get(name))]:
                raise UsageError(
                    f"{place}: the checkpoint belongs to another net: {', '.join(sorted(wrong)[:5])} differ"
                )
            stored |= {name: arrays[f"device:{number}:{name}"] for name in one.aux_dict if number}
            for name, array in own.items():
                array[:] = stored[name]
            for name, memory in one.memories().items():
                memory.restore(dict(nested(dict(nested(dict(nested(arrays, "memory")), str(number))), name)))
        content = arrays["optimizer:states"].tobytes()
        restore_states(self._updater, content, place, self._updated_arrays())
        self._updater.optimizer.lr = float(state["rate"])
        if self._kvstore is not None:
            residuals = {}
            for name, row in nested(arrays, "store"):
                key, device = map(int, name.split(":"))
                place_of = self.execs[device].arg_dict[self._param_names[key]].tensor.device
                residuals[key, device] = torch.from_numpy(row).to(place_of)
            self._kvstore.store.restore_residuals(residuals)


def _fits(own: NDArray | None, stored: np.ndarray | None) -> bool:
    return own is not None and stored is not None and own.shape == stored.shape

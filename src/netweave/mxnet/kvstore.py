"""``mx.kv``: the key-value store, on MXNet's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netweave.api.kvstore import create as create_store
from netweave.errors import UsageError
from netweave.mxnet import optimizer as opt
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.optimizer_states import read_into, write_states

if TYPE_CHECKING:
    from netweave.training.parallel.kvstore import KVStore as Store

__all__ = ["KVStore", "create", "store_of"]


class KVStore:
    """Values by key that devices and workers push to and pull from; see ``netweave.kvstore``.

    Args:
        store: The store of tensors.

    Attributes:
        store: The store of tensors.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._updater: opt.Updater | None = None

    @property
    def type(self) -> str:
        """Its kind."""
        return self.store.type

    @property
    def is_updating(self) -> bool:
        """True if the store applies the optimizer itself, so that weights are pulled and not gradients."""
        return self.type == "dist_async"

    @property
    def rank(self) -> int:
        """Number of this worker."""
        return self.store.rank

    @property
    def num_workers(self) -> int:
        """Number of workers."""
        return self.store.num_workers

    def init(self, key: Any, value: Any) -> None:
        """Give keys their first values."""
        self.store.init(key, _tensors(value))

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Add up values, and change what is stored by the sum."""
        self.store.push(key, _tensors(value), priority)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy what is stored to arrays."""
        self.store.pull(key, _tensors(out), priority)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push, and pull."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy some rows of what is stored; the other rows become zero."""
        self.store.row_sparse_pull(key, _tensors(out), _tensors(row_ids))

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Give keys the first worker's values, and copy these to arrays."""
        self.init(key, value)
        self.pull(key, out, priority)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether a store can apply an optimizer, the one capability that there is.

        Raises:
            UsageError: MXNet names no such capability.
        """
        if capability.lower() != "optimizer":
            raise UsageError(f"unknown capability {capability!r} of a store; expected 'optimizer'")
        return True

    def num_dead_node(self, node_id: int, timeout: int = 60) -> int:
        """Return 0: a worker that dies ends the run of the others, by name, and is never just counted."""
        return 0

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write what the store's optimizer keeps, in a file that MXNet reads.

        Args:
            fname: The file.
            dump_optimizer: Of no effect: counts of updates are written in any case, settings never.

        Raises:
            UsageError: The store has no optimizer, or its values lie on several workers, as MXNet refuses it.
        """
        write_states(self._own_updater("saved"), fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Go on with what ``save_optimizer_states`` wrote, here or in MXNet.

        Raises:
            ReadError: The file cannot be read, or holds no states.
            UsageError: As for ``save_optimizer_states``.
        """
        keys = self.store.keys
        read_into(self._own_updater("loaded"), fname, {key: NDArray(self.store.value(key)) for key in keys})

    def _own_updater(self, verb: str) -> opt.Updater:
        if "dist" in self.type:
            raise UsageError(
                f"states of a {self.type} store cannot be {verb}: they lie on all of its workers"
            )
        if self._updater is None:
            raise UsageError("the store has no optimizer yet; call set_optimizer first")
        return self._updater

    def set_optimizer(self, optimizer: opt.Optimizer) -> None:
        """Let an optimizer change stored values."""
        self._updater = opt.get_updater(optimizer)
        self._set_updater(self._updater)

    def _set_updater(self, updater: Any) -> None:
        """Let a function change stored values: called with key, sum, and the stored value."""
        self.store.set_updater(lambda key, merged, stored: updater(key, NDArray(merged), NDArray(stored)))

    set_updater = _set_updater

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Push values as 2-bit codes."""
        self.store.set_gradient_compression(compression_params)

    def barrier(self) -> None:
        """Wait for all workers."""
        self.store.barrier()

    _barrier = barrier


def create(name: str = "local") -> KVStore:
    """Return a store; the older names of its kinds work, too.

    Raises:
        UsageError: There is no such kind, or it is of several workers, and this process is none of several.
    """
    old = {
        "local_update_cpu": "local",
        "local_allreduce_cpu": "local",
        "local_allreduce_device": "device",
        "nccl": "device",
        "dist_device_sync": "dist_sync",
        "dist_sync_device": "dist_sync",
        "dist_device_async": "dist_async",
        "dist_async_device": "dist_async",
        "dist": "dist_sync",
    }
    return KVStore(create_store(old.get(name, name)))


def store_of(asked: Any, num_devices: int, compression: Mapping[str, Any] | None) -> KVStore | None:
    """Return the store of a fit: none for one device alone.

    Raises:
        UsageError: There is no such kind of store.
    """
    if isinstance(asked, KVStore):
        if num_devices == 1 and asked.num_workers == 1:
            return None
        if compression:
            asked.set_gradient_compression(compression)
        return asked
    kind = "local" if asked is None and num_devices > 1 else asked
    if kind is None or (num_devices == 1 and "dist" not in kind):
        return None  # as _create_kvstore of MXNet 1.9.1
    store = create(kind)
    if compression:
        store.set_gradient_compression(compression)
    return store


def _tensors(value: Any) -> Any:
    if isinstance(value, NDArray):
        return value.tensor
    return [_tensors(one) for one in value]

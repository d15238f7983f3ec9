"""MXNet's key-value store, as ``mx.kv`` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.api.runs import need_torch
from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.training.parallel.kvstore import KVStore


def create(kind: str = "local") -> KVStore:
    """Return a key-value store: values that devices and workers push to and pull from.

    Args:
        kind: ``local`` or ``device``, which sum over the devices of this process, or ``dist_sync``, which
            sums over the processes that ``torchrun`` started too.

    Raises:
        UsageError: There is no such kind, torch is not installed, or ``dist_sync`` was not started by
            ``torchrun``.
    """
    need_torch()
    from netweave.training.parallel.kvstore import KVStore

    if kind != "dist_sync":
        return KVStore(kind)
    from netweave.training.parallel.world import join

    world = join()
    if world is None:
        raise UsageError(
            "a dist_sync store has several workers; start them with: torchrun --nproc-per-node 2 SCRIPT"
        )
    return KVStore(kind, world)

"""MXNet's key-value store, as ``mx.kv`` makes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from netweave.api.runs import need_torch
from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.training.parallel.kvstore import KVStore


SERVERS = "NETWEAVE_SERVERS"
"""The variable in which ``netweave launch -s`` says how many of the workers hold keys."""


def create(kind: str = "local", *, staleness: int | None = None) -> KVStore:
    """Return a key-value store: values that devices and workers push to and pull from.

    Args:
        kind: ``local`` or ``device``, which sum over the devices of this process; ``dist_sync``, which sums
            over the processes that ``netweave launch`` or ``torchrun`` started too; or ``dist_async``, whose
            pushes are applied one by one as they come.
        staleness: Of ``dist_async``: pushes of a key by which a process may be ahead of the slowest.

    Raises:
        UsageError: There is no such kind, torch is not installed, or a store of several processes was not
            started as one of them.
    """
    need_torch()
    from netweave.training.parallel.kvstore import KVStore

    if staleness is not None and kind != "dist_async":
        raise UsageError(f"a {kind} store is never stale; staleness is for dist_async")
    if not kind.startswith("dist_"):
        return KVStore(kind)
    from netweave.training.cluster.async_store import AsyncStore
    from netweave.training.parallel.world import join

    world = join()
    if world is None:
        raise UsageError(
            f"a {kind} store has several workers; start them with: netweave launch -n 2 python SCRIPT"
        )
    if kind != "dist_async":
        return KVStore(kind, world)
    servers = os.environ.get(SERVERS)
    return AsyncStore(world, num_servers=int(servers) if servers else None, staleness=staleness)

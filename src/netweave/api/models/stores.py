"""Choice of the key-value store of a fit, by MXNet's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.api import kvstore
from netweave.errors import UsageError
from netweave.job import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from netweave.training.parallel.kvstore import KVStore


def store_for(
    asked: str | KVStore | None, num_contexts: int, compression: Mapping[str, Any]
) -> KVStore | None:
    """Return the store of a fit; None where one device needs none (``_create_kvstore`` of MXNet 1.9.1).

    Args:
        asked: A kind of store, or a fresh store.
        num_contexts: Devices of this process.
        compression: Settings of gradient compression; empty for none.

    Raises:
        UsageError: There is no such kind, several devices have no store, or the store cannot compress.
    """
    if asked is None:
        if num_contexts > 1:
            raise UsageError(
                "kvstore=None would train each context by itself; give kvstore='local' or 'device', which "
                "sum their gradients"
            )
        return None
    if isinstance(asked, str):
        if num_contexts == 1 and "dist" not in asked:
            return None
        store = kvstore.create(asked)
    else:
        store = asked
    if compression:
        store.set_gradient_compression(compression)
    return store


def checkpoints_of(store: KVStore | None, checkpoints: Checkpoints) -> Checkpoints:
    """Return the checkpoints that this worker takes part in: the first writes those of all.

    Raises:
        UsageError: Each worker has residuals to put into them, and not all of them are to do so.
    """
    if store is None or store.num_workers == 1:
        return checkpoints
    if store.is_compressed:
        due = [checkpoints.interval, checkpoints.at_end]
        store.require_equal(
            due,
            "checkpoint interval and end",
            "each worker keeps residuals of gradient compression: give all the same checkpoint_prefix and "
            "checkpoint_interval",
        )
        return checkpoints
    return checkpoints if store.rank == 0 else Checkpoints(at_end=False)

"""A rank that fails before it has joined the others says why: they would wait for it until the timeout."""

from __future__ import annotations

import contextlib

from netweave.errors import PeerError, UsageError
from netweave.training.parallel.environment import rank_environment

CONNECT_S = 30.0
"""So long does it look for the store, which the first rank may hold and not have opened yet."""


def announce_early_failure(message: str) -> None:
    """Tell the other ranks why this process fails; do nothing if it has joined them, or is no rank.

    Args:
        message: The error.
    """
    try:
        environment = rank_environment()
    except UsageError:  # nobody can be reached by such an environment
        return
    if environment is None or environment.size == 1:
        return
    with contextlib.suppress(PeerError, ImportError):
        from netweave.training.parallel.world import RankStore  # torch, which may be what is missing

        if RankStore.num_joined:
            return
        store = RankStore(environment, timeout_s=CONNECT_S)
        store.announce_failure(message)
        store.leave()

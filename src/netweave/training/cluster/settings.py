"""Checks of a cluster's settings against what is there: processes, and the net and solver that it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.job import Cluster


def require_processes(cluster: Cluster, num_processes: int) -> None:
    """Refuse another number of processes than a cluster needs.

    Raises:
        UsageError: There are more or fewer; the message says how many it takes.
    """
    need = cluster.num_processes
    if need == num_processes:
        return
    how = "with processes of their own" if cluster.separate else "each beside a worker where there is one"
    raise cluster.error(
        "worker_groups" if cluster.worker_groups > 1 else "workers_per_group",
        f"the cluster has {cluster.num_workers} workers and {cluster.num_servers} servers, {how}: it needs "
        f"{need} processes, found {num_processes}; give --devices cpu:{need}, or as many GPUs, or change the "
        "cluster",
    )

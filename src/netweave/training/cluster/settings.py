"""Checks of a cluster's settings against what is there: processes, and the net and solver that it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.job import Cluster, Job
    from netweave.training.watchers import TrainOptions


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


def require_trainable(job: Job, options: TrainOptions, *, measures: bool) -> None:
    """Refuse what worker groups that do not wait for each other, or servers, cannot do.

    Args:
        job: What is trained; it has a cluster.
        options: How.
        measures: Whether the update rule needs norms over all gradients.

    Raises:
        UsageError: The solver needs all gradients of one moment, the net the whole batch of all groups, or
            an option is for processes without servers.
    """
    cluster = job.cluster
    assert cluster is not None
    graph = job.phases["train"].graph
    if measures and cluster.worker_groups > cluster.server_groups:
        raise cluster.error(
            "worker_groups",
            f"{job.solver.kind} with these settings needs norms over all gradients at once (clipping by the "
            "norm, LARS, LAMB), and the servers change slices as gradients of several worker groups come; "
            "take one worker group, as many server groups as worker groups, or another rule",
        )
    norms = [node for node in graph.nodes if node.op_type == "BatchNormalization"]
    if norms and options.sync_batch_norm and cluster.worker_groups > 1:
        raise cluster.error(
            "worker_groups",
            f"{graph.place_of(norms[0])}: batch normalisation cannot take the statistics of worker groups "
            "that do not wait for each other; use --no-sync-batch-norm (sync_batch_norm=False), or one "
            "worker group",
        )
    for name, default in (("exchange", "overlapped"), ("same_bits", None), ("memory", None)):
        if getattr(options, name) != default:
            raise UsageError(
                f"{name} does not go with a cluster, whose servers say where slices go; leave it out"
            )

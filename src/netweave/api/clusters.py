"""Clusters: reading them, and placing the parameters of a net on their servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.api.arguments import check_file
from netweave.formats.singa.cluster import read_cluster
from netweave.graph import Graph
from netweave.job import Cluster

if TYPE_CHECKING:
    from netweave.training.cluster.topology import Topology


def load_cluster(cluster: Cluster | str | Path) -> Cluster:
    """Return worker groups and servers: as they are, or those of a file.

    Args:
        cluster: A Cluster, or a file with fields of SINGA's ``ClusterProto``, alone or in ``cluster { }``.

    Raises:
        SourceError: The file cannot be read, or holds an unknown field.
        UsageError: A number is out of its range, or the groups cannot be divided; the message has the line.
    """
    if isinstance(cluster, Cluster):
        return cluster
    return read_cluster(check_file(cluster, what="cluster"))


def plan_cluster(graph: Graph, cluster: Cluster | str | Path) -> Topology:
    """Return the roles of a cluster's processes, and which of a net's parameters each server holds.

    Args:
        graph: The training net.
        cluster: The workers and servers, or a file that says them.

    Raises:
        SourceError: The file cannot be read.
        UsageError: The settings cannot be, or a server would hold nothing.
    """
    from netweave.training.cluster.topology import plan_topology, trained_sizes

    return plan_topology(load_cluster(cluster), trained_sizes(graph))

"""Nets cut across workers: the plan, and the graph of each worker (docs/decisions/0253)."""

from netweave.graph.passes.partition.layouts import Boxes, Layout, Piece, shares
from netweave.graph.passes.partition.plan import (
    Edge,
    Holding,
    LayerCut,
    PartitionPlan,
    channels_text,
    partition_plan,
)
from netweave.graph.passes.partition.worker import Part, cut_array, part_of, worker_graph

__all__ = [
    "Boxes",
    "Edge",
    "Holding",
    "LayerCut",
    "Layout",
    "Part",
    "PartitionPlan",
    "Piece",
    "channels_text",
    "cut_array",
    "part_of",
    "partition_plan",
    "shares",
    "worker_graph",
]

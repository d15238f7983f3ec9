"""Nets cut across workers: the plan, and the graph of each worker (docs/decisions/0253)."""

from netweave.graph.passes.partition.pipeline import locations, pipeline_plan, sent_values, stage_graph
from netweave.graph.passes.partition.plan import (
    SHARED,
    Edge,
    Holding,
    LayerCut,
    PartitionPlan,
    Placement,
    channels_text,
    last_axis,
    partition_plan,
    placements,
    places_text,
    require_layers,
)
from netweave.graph.passes.partition.shardings import Boxes, Piece, Sharding, length, shares
from netweave.graph.passes.partition.worker import Part, part_of, worker_graph

__all__ = [
    "SHARED",
    "Boxes",
    "Edge",
    "Holding",
    "LayerCut",
    "Part",
    "PartitionPlan",
    "Piece",
    "Placement",
    "Sharding",
    "channels_text",
    "last_axis",
    "length",
    "locations",
    "part_of",
    "partition_plan",
    "pipeline_plan",
    "placements",
    "places_text",
    "require_layers",
    "sent_values",
    "shares",
    "stage_graph",
    "worker_graph",
]

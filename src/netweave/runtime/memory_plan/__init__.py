"""Memory plans of runs and training steps, and ways to reduce them.

Everything here is a function of a Graph; torch carries it out. ``prepare`` and ``timeline`` say what is
allocated when, ``share`` gives each buffer a place, ``overwrites`` says which node writes over an input.
"""

from netweave.runtime.memory_plan.behaviour import behaviour_of, pixel_strides
from netweave.runtime.memory_plan.lifetimes import Buffer, Overwrite, Sharing, Timeline, overwrites, share
from netweave.runtime.memory_plan.net import Net, prepare
from netweave.runtime.memory_plan.program import timeline
from netweave.runtime.memory_plan.recompute import (
    Recomputation,
    TrainingMemory,
    cheapest,
    parse_bytes,
    plan_training,
    square_root,
    tile_to_fit,
)
from netweave.runtime.memory_plan.report import MeasuredMemory, MemoryPlan, MemoryReport, report

__all__ = [
    "Buffer",
    "MeasuredMemory",
    "MemoryPlan",
    "MemoryReport",
    "Net",
    "Overwrite",
    "Recomputation",
    "Sharing",
    "Timeline",
    "TrainingMemory",
    "behaviour_of",
    "cheapest",
    "overwrites",
    "parse_bytes",
    "pixel_strides",
    "plan_training",
    "prepare",
    "report",
    "share",
    "square_root",
    "tile_to_fit",
    "timeline",
]

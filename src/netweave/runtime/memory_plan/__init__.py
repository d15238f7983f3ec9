"""Memory plans of runs and training steps, and ways to reduce them.

Everything here is a function of a Graph; torch carries it out. ``prepare`` and ``timeline`` say what is
allocated when, ``share`` gives each buffer a place, ``overwrites`` says which node writes over an input.
"""

from netweave.runtime.memory_plan.behaviour import behaviour_of, pixel_strides
from netweave.runtime.memory_plan.in_place import Overwrite, overwrites
from netweave.runtime.memory_plan.lifetimes import Buffer, Timeline
from netweave.runtime.memory_plan.limit import TrainingMemory, parse_bytes, plan_training
from netweave.runtime.memory_plan.net import Net, prepare
from netweave.runtime.memory_plan.program import timeline
from netweave.runtime.memory_plan.recompute import Recomputation, cheapest, square_root
from netweave.runtime.memory_plan.report import MeasuredMemory, MemoryPlan, MemoryReport, report
from netweave.runtime.memory_plan.sharing import Sharing, share
from netweave.runtime.memory_plan.tiling import tile_to_fit

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

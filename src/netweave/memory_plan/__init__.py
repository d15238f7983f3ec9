"""How much memory a run or a training step needs, and how to reduce it.

Everything here is a function of a Graph; torch carries it out. ``prepare`` and ``timeline`` say what is
allocated when, ``share`` gives each buffer a place, ``overwrites`` says which node writes over an input.
"""

from netweave.memory_plan.behaviour import behaviour_of, pixel_strides
from netweave.memory_plan.in_place import Overwrite, overwrites
from netweave.memory_plan.lifetimes import Buffer, Timeline
from netweave.memory_plan.limit import TrainingMemory, parse_bytes, plan_training
from netweave.memory_plan.net import Net, prepare
from netweave.memory_plan.program import timeline
from netweave.memory_plan.recompute import Recomputation, cheapest, square_root
from netweave.memory_plan.report import MeasuredMemory, MemoryPlan, MemoryReport, report
from netweave.memory_plan.sharing import Sharing, share
from netweave.memory_plan.tiling import tile_to_fit

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

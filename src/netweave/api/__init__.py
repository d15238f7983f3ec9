"""What ``import netweave`` offers."""

from netweave.api.arrays import draw_inputs, load_arrays, save_arrays
from netweave.api.nets import load, run, save
from netweave.compare import Comparison, compare
from netweave.graph import Graph

__all__ = [
    "Comparison",
    "Graph",
    "compare",
    "draw_inputs",
    "load",
    "load_arrays",
    "run",
    "save",
    "save_arrays",
]

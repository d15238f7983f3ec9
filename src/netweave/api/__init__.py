"""What ``import netweave`` offers."""

from netweave.api.arrays import draw_inputs, load_arrays, save_arrays
from netweave.api.nets import compare, load, predicting, run, save
from netweave.compare import (
    OUTPUT_TOLERANCE,
    Comparison,
    bisect,
    compare_all,
    open_comparison,
    save_comparison,
)
from netweave.graph import Graph

__all__ = [
    "OUTPUT_TOLERANCE",
    "Comparison",
    "Graph",
    "bisect",
    "compare",
    "compare_all",
    "draw_inputs",
    "load",
    "load_arrays",
    "open_comparison",
    "predicting",
    "run",
    "save",
    "save_arrays",
    "save_comparison",
]

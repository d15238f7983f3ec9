"""What ``import netweave`` offers."""

from netweave.api.nets import load, run, save
from netweave.compare import Comparison, compare
from netweave.graph import Graph

__all__ = ["Comparison", "Graph", "compare", "load", "run", "save"]

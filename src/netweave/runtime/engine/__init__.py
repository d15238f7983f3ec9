"""A dependency engine: runs tasks in parallel; the results are those of running them in order.

The one place where things happen at the same time. A task is pushed with the variables that it reads and
those that it writes; tasks that do not touch each other's variables run side by side, and the result is
always that of running all of them in the order of pushing. The engine knows nothing of tensors or nets:
a variable stands for anything that tasks share.

>>> with ThreadedEngine() as engine:
...     batch = Variable("batch")
...     loaded = engine.push(lambda: [1, 2, 3], writes=[batch], lane="input")
...     total = engine.push(lambda: sum(loaded.result()), reads=[batch])
...     total.result()
6
"""

from netweave.runtime.engine.dependency_engine import Completion, Engine, Future, LaneStatistics, Variable
from netweave.runtime.engine.threaded import ClockEngine, Price, SerialEngine, ThreadedEngine, Trace

__all__ = [
    "ClockEngine",
    "Completion",
    "Engine",
    "Future",
    "LaneStatistics",
    "Price",
    "SerialEngine",
    "ThreadedEngine",
    "Trace",
    "Variable",
]

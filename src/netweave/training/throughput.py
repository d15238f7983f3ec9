"""Work of the machines of a run: records per second, and utilisation as time and as a share of their peak.

A rank may compute all the time and still achieve little; so the multiply-adds that its samples took are held
against what the same processors reach in a matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from netweave.graph import Graph
from netweave.graph.costs import node_cost


@dataclass(frozen=True, slots=True)
class RankWork:
    """Work of one rank from its first update to the end of the run.

    Attributes:
        rank: Its number.
        host: Its machine.
        device: Where it computed.
        compute: Share of the time in which it computed.
        link: Share of the time in which something was on the link.
        hidden: Share of the time on the link in which it computed too.
        input: Mean number of threads that made batches.
        multiply_adds_per_s: Multiply-adds that its samples took in forward and backward, per second.
        peak_per_s: Those of a matrix product on the same processors.
    """

    rank: int
    host: str
    device: str
    compute: float
    link: float
    hidden: float
    input: float
    multiply_adds_per_s: float
    peak_per_s: float

    def __str__(self) -> str:
        peak = f"{self.multiply_adds_per_s / self.peak_per_s:.0%}" if self.peak_per_s else "?"
        return (
            f"rank {self.rank} ({self.device} on {self.host}): computed {self.compute:.0%} of the time, link "
            f"busy {self.link:.0%}, of which {self.hidden:.0%} hidden, input {self.input:.0%}; "
            f"{self.multiply_adds_per_s / 1e9:.3g} G multiply-adds/s, {peak} of a matrix product's "
            f"{self.peak_per_s / 1e9:.3g} G"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> RankWork:
        """Return what ``to_json`` was called on."""
        return RankWork(**content)


def multiply_adds_per_sample(graph: Graph) -> float:
    """Return the multiply-adds of forward and backward of one sample.

    Backward makes the gradient of the input and of the weights, each for what forward takes; layers that read
    an input of the net have no gradient of it.
    """
    sizes = [value.shape[0] for value in graph.inputs if value.shape is not None and len(value.shape)]
    batch = next((size for size in sizes if isinstance(size, int)), 1)
    inputs = set(graph.inputs)
    total = 0
    for node in graph.nodes:
        once = node_cost(node, batch=1).multiply_adds
        total += once * (2 if any(value in inputs for value in node.inputs) else 3)
    return total / batch


class RecordSpeed:
    """Records per second between two displays."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def since_last(self, iteration: int, records: int) -> float | None:
        """Return the records trained per second since the last call; None at the first.

        Args:
            iteration: Updates done.
            records: Records of an update.
        """
        now, last = perf_counter(), self._last
        self._last = (iteration, now)
        if last is None or iteration <= last[0]:
            return None
        return (iteration - last[0]) * records / (now - last[1])

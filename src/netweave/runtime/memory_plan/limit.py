"""A limit on memory: how it is written, and what fits in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.graph.costs import num_bytes
from netweave.graph.wording import bytes_text
from netweave.runtime.memory_plan.net import prepare
from netweave.runtime.memory_plan.recompute import Recomputation, cheapest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def parse_bytes(text: str | int) -> int:
    """Return a number of bytes: 4 GB are 4 * 10**9, 4 GiB are 4 * 2**30.

    Raises:
        UsageError: The text is no size.

    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes(1000)
    (4000000000, 1572864, 1000)
    """
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"memory is {text!r}, expected a size such as 4GB, 512MB or 4GiB")
    unit = _BINARY[match[2]] if match[3] else _UNITS[match[2]]
    return int(float(match[1]) * unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Memory of a training run, without the values of a step.

    Attributes:
        parameters: All stored arrays.
        solver: What the solver keeps for them.
        batches: Batches that are there at once: the one that is computed with, and those being made.
        accumulate: Batches whose gradients are added up for an update.
        exchange: What several ranks exchange their gradients in.
    """

    parameters: int
    solver: int
    batches: int
    accumulate: int = 1
    exchange: int = 0

    def fixed(self, graph: Graph, batch: int) -> int:
        """Return the bytes that no plan changes."""
        inputs = sum(num_bytes(value, batch) for value in graph.inputs)
        return self.parameters + self.solver + self.exchange + self.batches * inputs


def plan_training(
    graph: Graph,
    *,
    batch: int,
    limit: int,
    run: TrainingMemory,
    losses: Collection[str] | None = None,
    kept: Collection[str] = (),
    stages: Sequence[Collection[ir.Node]] = (),
) -> Recomputation:
    """Return the cheapest plan with which training fits in a limit.

    Args:
        graph: The training net.
        batch: Records in a batch.
        limit: Bytes, for all that a run holds.
        run: What it holds besides the values of a step.
        losses: Names of the values that gradients begin at; all outputs if nothing is said.
        kept: Names of values that are needed until forward ends.
        stages: The nodes of each stage that the net is cut into.

    Raises:
        UsageError: None fits; the message says what would.
    """

    def needed(batch: int) -> tuple[Recomputation, int]:
        """Return the cheapest plan for batches of a size, and the bytes of a run with it."""
        net = prepare(graph, batch=batch, training=True, losses=losses, kept=kept, stages=stages)
        fixed = run.fixed(graph, batch)
        found = cheapest(net, limit - fixed)
        return found, fixed + found.peak

    found, num_bytes = needed(batch)
    if num_bytes <= limit:
        return found
    fits = _largest_batch(batch, lambda size: needed(size)[1] <= limit)
    advice = f"give it {bytes_text(num_bytes)}"
    if fits:
        times = -(-batch * run.accumulate // fits)
        advice += f", or take batches of {fits} or less ({times} of them accumulated are the same update)"
    fixed = bytes_text(run.fixed(graph, batch))
    raise UsageError(
        f"{graph.name}: training with batches of {batch} needs at least {bytes_text(num_bytes)}, however "
        f"much is recomputed; {fixed} of that are parameters, solver state and batches. The limit is "
        f"{bytes_text(limit)}: {advice}"
    )


def _largest_batch(batch: int, fits: Callable[[int], bool]) -> int:
    """Return the largest batch size below one that does not fit; 0 if not even one record fits."""
    low, high = 0, batch
    while high - low > max(1, low // 16):  # a size near the largest will do
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
